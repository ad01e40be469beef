"""The readable execution of the declarations, in Python: headers, records, the scan of a segment. Everything faster is
compared with it.
"""
