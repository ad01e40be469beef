"""What the programs of this folder share: corpora, and the peers they are measured beside."""
