"""Data: verified downloads, what a frozen encoder makes of images, and task streams made of either.

Only ``download`` may use the network, by ``web``. Nothing here knows methods, runs or results.
"""
