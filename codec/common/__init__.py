"""Small helpers that import nothing else of the codec: errors and findings, limits, arguments, sources of bytes,
memory, words.
"""
