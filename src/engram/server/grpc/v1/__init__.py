"""Version 1 of the protocol: its .proto files, and the code that `make proto` makes from them."""
