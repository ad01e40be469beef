"""Decode headers and records and scan segments in readable Python. All faster implementations are compared with this
one.
"""
