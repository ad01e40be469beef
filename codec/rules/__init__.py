"""Rules about batches: the sizes that a scan needs first, the layouts that hand-written loops assume, the interface of
an execution, and the rules about values that a valid checksum does not prove.
"""
