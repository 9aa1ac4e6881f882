"""The settings of a run: every option declared once, and resolved once from what a user, a file and a device say.

It may import devices, policies and what lies below them. It must not know the passes that read the settings.
"""
