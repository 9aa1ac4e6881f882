"""Networks for real accelerators as plain files, for whoever has a model of the hardware or a board."""
