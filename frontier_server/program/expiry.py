"""Warns of a certificate that expires soon: nobody could call any more."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Never

import structlog

RENEW = "replace the files of --tls-cert and --tls-key: new connections use them"
CHECK_S, SOON = 12 * 3600.0, timedelta(days=14)

_log = structlog.get_logger()


async def watch_expiry(expires: Callable[[], datetime], advice: str) -> Never:
    """Warn before the certificate that is in use expires, again and again. `advice` says what to do."""
    while True:
        at = expires()
        left = at - datetime.now(UTC)
        if left < SOON:
            when = f"{at:%Y-%m-%d %H:%M:%SZ}"
            _log.warning("certificate_expires", expires=when, days_left=left.days, advice=advice)
        await asyncio.sleep(CHECK_S)
