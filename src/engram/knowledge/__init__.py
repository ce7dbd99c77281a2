"""What is known as facts: how texts state them, when they hold, and how they hang together."""
