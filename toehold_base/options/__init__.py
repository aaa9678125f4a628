"""Options of programs that come from elsewhere, too: variables of the environment, and settings files.

For each option the first of these counts: the command line, the environment, the file, the default. Needs
click.
"""
