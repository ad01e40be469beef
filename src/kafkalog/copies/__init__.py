"""Several copies of a partition side by side: which is which, what each holds, and what all of them give."""
