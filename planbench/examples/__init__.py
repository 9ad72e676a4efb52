"""Examples that are installed with planbench: their data, their tools and their plans."""
