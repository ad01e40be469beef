"""The broker's own storage classes, once, under Kafka's names: what a plan runs and what `Log` writes with.

They reach their files through `disk.Disk` alone.  Over the virtual tree they compute what a broker would leave and
change nothing; over the directory they write.
"""
