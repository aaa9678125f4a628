"""The fixtures of tests with whole programs."""

from acceptance.fixtures import parts as parts
from acceptance.fixtures import programs as programs
from acceptance.fixtures import web as web
