"""The modes of recovery, a file for each; `table` lists them and the ways that a plan compares."""
