"""Share knowledge between agents: grants, the ledger of consent, lenses, and API keys."""
