"""`qec view`: a page in the browser where a shape is rotated and the network's prediction follows.

A page sends requests (`request.py`), its session (`session.py`) answers each with a response.
"""
