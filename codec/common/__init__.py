"""Small helpers that import nothing else of the codec: errors, findings, limits, arguments, sources of bytes, memory."""
