"""Certificates with names that honest makers of certificates refuse to write."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

YEAR = timedelta(days=365)

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """An authority that certifies whatever it is asked to. Its files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _called("an authority of tests")
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._issued = 0
        certificate = (
            _certificate(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def server(
        self, names: Sequence[str] = (), *, common_name: str = "a server", expired: bool = False
    ) -> ssl.SSLContext:
        """A server's side of TLS, whose certificate has these DNS names as they are; IP addresses go where
        they belong."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        builder = _certificate(
            _called(common_name), self._name, key.public_key(), expired=expired
        ).add_extension(issuer, critical=False)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
            )
        self._issued += 1
        file = self._folder / f"server{self._issued}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * YEAR)
        .not_valid_after(now - YEAR if expired else now + YEAR)
    )


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name) if name.isascii() else x509.DNSName._init_without_validation(name)
