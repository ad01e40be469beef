"""Declarations only: one file per on-disk structure, written in Construct; everything else is derived from these."""
