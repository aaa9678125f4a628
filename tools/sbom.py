"""Lists the packages of an installation with all extras as a CycloneDX SBOM: versions, hashes, licences, and
which package needs which.

The pins are those of requirements/all.txt that apply to this Python. Licences and needs are those that the
packages state, which are installed in this environment.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LICENCE = "License :: OSI Approved :: "
_INDENT = 2


def sbom(project: dict[str, Any], pins: str, epoch_s: int) -> str:
    """The SBOM of a release in JSON, from its table `project` in pyproject.toml and its pinned packages.

    Raises ValueError if it breaks CycloneDX's schema.
    """
    top = _component(project["name"], project["version"], project["license"], (), ComponentType.APPLICATION)
    packages = dict(_pinned(pins))
    bom = Bom(components=packages.values(), serial_number=uuid5(NAMESPACE_URL, f"{top.purl}?{epoch_s}"))
    bom.metadata.component = top
    bom.metadata.timestamp = datetime.fromtimestamp(epoch_s, UTC)
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = [text for texts in (project["dependencies"], *extras.values()) for text in texts]
    bom.register_dependency(top, _needed(wanted, packages))
    for name, package in packages.items():
        bom.register_dependency(package, _needed(metadata.requires(name) or (), packages))
    from cyclonedx.validation.json import JsonStrictValidator  # takes a second to import

    text: str = JsonV1Dot6(bom).output_as_string(indent=_INDENT)
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the SBOM breaks CycloneDX's schema: {problem}")
    return f"{text}\n"


def _pinned(pins: str) -> Iterator[tuple[str, Component]]:
    """The packages of a lock file, by name."""
    for entry in re.split(r"\n(?=\S)", pins):
        pin = Requirement(entry.partition("\\")[0].strip())
        if pin.marker is None or pin.marker.evaluate():
            (version,) = pin.specifier
            yield pin.name, _component(pin.name, version.version, _licence(pin.name), _HASH.findall(entry))


def _component(
    name: str,
    version: str,
    licence: str,
    sha256s: Iterable[str],
    kind: ComponentType = ComponentType.LIBRARY,
) -> Component:
    purl = PackageURL("pypi", name=name, version=version)
    return Component(
        name=name,
        version=version,
        type=kind,
        purl=purl,
        bom_ref=str(purl),
        licenses=[LicenseFactory().make_from_string(licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256) for sha256 in sha256s],
    )


def _licence(package: str) -> str:
    """The licence that an installed package states: as an expression, a short text, or classifiers."""
    stated = metadata.metadata(package).json
    text = str(stated.get("license_expression") or stated.get("license") or "")
    if text and "\n" not in text:
        return text
    classes = [each.removeprefix(_LICENCE) for each in stated["classifier"] if each.startswith(_LICENCE)]
    return " OR ".join(classes)


def _needed(texts: Iterable[str], packages: dict[str, Component]) -> list[Component]:
    """The packages that requirements name, except for those of extras."""
    found = []
    for needed in map(Requirement, texts):
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            package = packages.get(canonicalize_name(needed.name))
            found += [package] if package is not None else []
    return found
