"""`qec view`: a page in the browser where one turns a shape and watches what the network says of it.

A wish (`wish.py`) comes from the page and says all that is to be seen; a reply (`reply.py`) goes back.
"""
