"""A partition that is written: append, roll, flush, retain, truncate, compact; and whole ones built from columns."""
