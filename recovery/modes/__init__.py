"""The modes of recovery, one file each; `table` lists them and the ways that a plan compares."""
