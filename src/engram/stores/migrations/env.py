"""Runs the migrations on the connection, and inside the transaction, that the store hands over."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transactional_ddl=True)
context.run_migrations()
