"""Parse and build whole structures field by field, according to their declarations, and read the contents of compressed
records.
"""
