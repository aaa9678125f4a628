"""A certificate authority in a directory, for the frontier, the nodes and the people of one installation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from toehold_base.access.callers_file import check_name
from toehold_client.errors import InvalidArgument

from .files import PUBLIC, SECRET, locked, replace_file

CA_DAYS = 3650
_CA = "ca"
_MAX_COMMON_NAME = 64  # RFC 5280
_SKEW = timedelta(minutes=5)  # clocks differ
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate of the authority."""

    name: str
    serial: str
    hosts: Sequence[str]
    """The names and addresses of a server; none for one that only calls."""
    expires: datetime
    cert: Path

    @property
    def is_expired(self) -> bool:
        """Whether it is of no use any more."""
        return self.expires <= datetime.now(UTC)


class Authority:
    """The authority whose certificate and key are in a directory; made when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.cert, self._key = directory / f"{_CA}.crt", directory / f"{_CA}.key"

    def issue(self, name: str, hosts: Sequence[str], days: int, *, renew: bool) -> Issued:
        """Makes a certificate and its key, NAME.crt and NAME.key.

        With `renew` it replaces an earlier one, by default for the same hosts. InvalidArgument.
        """
        _check(name)
        alternatives = [_alternative(host) for host in hosts]
        self._directory.mkdir(parents=True, exist_ok=True)
        cert, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        with locked(self._directory):
            if cert.exists() and not renew:
                raise InvalidArgument(f"{cert} is there already; use --renew to replace it")
            if renew and not cert.exists():
                raise InvalidArgument(f"{cert} is missing, so it cannot be renewed; leave --renew out")
            if renew and not alternatives:
                alternatives = _alternatives_of(_loaded(cert))
            authority, signs = self._authority()
            made, private = _made(name, authority, signs, alternatives, days)
            # The key first: whoever reads both in between finds that they differ, and keeps the former ones.
            replace_file(key, private, SECRET)
            replace_file(cert, made.public_bytes(Encoding.PEM), PUBLIC)
        return _issued(made, cert)

    def issued(self) -> list[Issued]:
        """The present certificates, by name."""
        if not self.cert.exists():
            raise InvalidArgument(f"{self._directory} has no authority; 'toehold certs create' makes one")
        paths = sorted(self._directory.glob("*.crt"))
        return [_issued(_loaded(path), path) for path in paths if path != self.cert]

    def _authority(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        if self.cert.exists():
            try:
                key = load_pem_private_key(self._key.read_bytes(), None)
            except OSError as error:
                raise InvalidArgument(f"{self._key}: {error.strerror}") from None
            except (ValueError, TypeError):
                raise InvalidArgument(f"{self._key} must be a key in PEM without a password") from None
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise InvalidArgument(f"{self._key} must be a key of an elliptic curve")
            return _loaded(self.cert), key
        signs = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Toehold authority")])
        certificate = (
            _builder(name, name, signs, CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(signs, hashes.SHA256())
        )
        replace_file(self._key, _private(signs), SECRET)
        replace_file(self.cert, certificate.public_bytes(Encoding.PEM), PUBLIC)
        return certificate, signs


def serial_in(path: Path) -> tuple[str, str]:
    """The common name and the serial number of the certificate in a file. InvalidArgument."""
    found = _loaded(path)
    return _name_of(found), f"{found.serial_number:x}"


def _made(
    name: str,
    authority: x509.Certificate,
    signs: ec.EllipticCurvePrivateKey,
    alternatives: Sequence[x509.GeneralName],
    days: int,
) -> tuple[x509.Certificate, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(subject, authority.subject, key, days)
    if alternatives:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key()), critical=False)
        .sign(signs, hashes.SHA256())
    )
    return certificate, _private(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _loaded(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror}") from None
    except ValueError:
        raise InvalidArgument(f"{path} must be a certificate in PEM") from None


def _issued(found: x509.Certificate, path: Path) -> Issued:
    hosts = [str(each.value) for each in _alternatives_of(found)]
    return Issued(_name_of(found), f"{found.serial_number:x}", hosts, found.not_valid_after_utc, path)


def _alternatives_of(found: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _name_of(found: x509.Certificate) -> str:
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _alternative(host: str) -> x509.GeneralName:
    try:
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        return x509.IPAddress(ip_address(bare))
    except ValueError:
        if len(host) > 253 or _HOST.fullmatch(host) is None:
            raise InvalidArgument(
                f"a host must be a name such as frontier.example, or an IP address, got {host!r:.300}"
            ) from None
        return x509.DNSName(host)


def _check(name: str) -> None:
    try:
        check_name(name)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    if name == _CA or len(name) > _MAX_COMMON_NAME or _FILE_NAME.fullmatch(name) is None:
        raise InvalidArgument(
            f"a certificate's name must have 1 to {_MAX_COMMON_NAME} of a-z A-Z 0-9 . _ @ -, begin with a "
            f"letter or digit, and not be {_CA!r}, got {name!r:.200}"
        )
