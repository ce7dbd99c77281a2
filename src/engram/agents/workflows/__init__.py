"""Define and run workflows."""
