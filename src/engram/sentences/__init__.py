"""How the two sentences of the engine are carried out: recording, recalling, advice, credit, and what is kept."""
