"""What the conformance kit's wheel takes from the project's pyproject.toml.

A hook of hatchling's, which toehold_conformance/pyproject.toml names. The kit judges with the frontier and
the client of its own version.
"""

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class KitMetadata(MetadataHookInterface):
    """Fills in what the kit's pyproject.toml calls dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by the builder."""
        whole = tomllib.loads((Path(self.root).parent / "pyproject.toml").read_text())["project"]
        metadata |= {key: whole[key] for key in ("version", "requires-python", "license")}
        metadata["dependencies"] = [f"{whole['name']}[cli,frontier]=={whole['version']}"]
