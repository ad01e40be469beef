"""Commands that use `recovery.act`: merge, undelete, compact, restore from a remote tier, repair a quorum, triage."""
