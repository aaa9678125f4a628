package toehold.examples;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hc.core5.http.ClassicHttpResponse;
import org.apache.hc.core5.http.ConnectionClosedException;
import org.apache.hc.core5.http.HttpException;
import org.apache.hc.core5.http.config.Http1Config;
import org.apache.hc.core5.http.impl.io.DefaultHttpResponseParser;
import org.apache.hc.core5.http.io.SessionInputBuffer;
import org.apache.hc.core5.util.CharArrayBuffer;

/**
 * Reads the heads of answers. It tells apart two things that are one to HttpClient: something that is not
 * HTTP (FETCH_STATUS_PROTOCOL_ERROR), and a head that broke off (FETCH_STATUS_CONNECT_LOST).
 */
final class HeadParser extends DefaultHttpResponseParser {
    static final Http1Config LIMITS =
        Http1Config.custom().setMaxHeaderCount(1000).setMaxLineLength(64 * 1024).build();

    private boolean isHttp;
    private boolean ended;

    HeadParser() {
        super(LIMITS);
    }

    @Override
    public ClassicHttpResponse parse(SessionInputBuffer buffer, InputStream stream)
            throws IOException, HttpException {
        isHttp = false;
        ended = false; // the connection, before the blank line that ends a head
        try {
            ClassicHttpResponse head = super.parse(buffer, new FilterInputStream(stream) {
                @Override
                public int read(byte[] bytes, int offset, int size) throws IOException {
                    int count = super.read(bytes, offset, size);
                    ended |= count < 0;
                    return count;
                }
            });
            if (!ended) {
                return head;
            }
        } catch (HttpException error) {
            if (!isHttp || !ended) {
                throw error;
            }
        }
        throw new ConnectionClosedException("the head of the answer broke off");
    }

    @Override
    protected ClassicHttpResponse createMessage(CharArrayBuffer line) throws IOException, HttpException {
        ClassicHttpResponse head = super.createMessage(line);
        isHttp = true;
        return head;
    }
}
