"""Facts: extract them from text (`extract`), order them in time (`timeline`), link them in a graph (`graph`)."""
