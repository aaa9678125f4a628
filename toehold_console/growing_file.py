"""Files that grow while they are sent, as those of a running crawl do."""

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send


class GrowingFile(FileResponse):
    """A file as long as it was at first: its length has been said by then."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left, complete = 0, False

        async def send_promised(message: Message) -> None:
            nonlocal left, complete
            if message["type"] == "http.response.start":
                left = int(Headers(raw=message["headers"])["content-length"])
            elif complete:
                return
            else:
                body = message["body"][:left]
                left -= len(body)
                complete = not (left and message["more_body"])
                message = {**message, "body": body, "more_body": not complete}
            await send(message)

        await super().__call__(scope, receive, send_promised)
