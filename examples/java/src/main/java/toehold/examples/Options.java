package toehold.examples;

import com.google.common.net.InetAddresses;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.HashMap;
import java.util.Map;
import org.apache.hc.client5.http.ssl.DefaultClientTlsStrategy;
import org.apache.hc.core5.ssl.SSLContexts;

/** The command line. */
final class Options {
    private static final String USAGE = """
        usage: toehold-fetcher [OPTION VALUE]...
          --frontier HOST:PORT          the frontier (default: 127.0.0.1:7707)
          --crawl NAME                  fetch for this crawl only
          --name NODE                   the node's name (default: java- and the process id)
          --toes N                      most fetches at once (default: 10)
          --resolve HOST:PORT:ADDRESS   the address of a host, as with curl; may be repeated
          --ca-file FILE                trust these certificates (PEM) instead of the usual ones""";

    String frontier = "127.0.0.1:7707";
    String crawl = "";
    String name = "java-" + ProcessHandle.current().pid();
    int toes = 10;
    final Map<String, InetAddress> resolve = new HashMap<>(); // by HOST:PORT
    DefaultClientTlsStrategy tls = DefaultClientTlsStrategy.createDefault();

    /** Ends the program if the options are wrong. */
    static Options parse(String[] arguments) {
        Options options = new Options();
        try {
            for (int i = 0; i < arguments.length; i += 2) {
                if (i + 1 == arguments.length) {
                    throw new IllegalArgumentException(arguments[i] + " needs a value");
                }
                options.set(arguments[i], arguments[i + 1]);
            }
        } catch (IllegalArgumentException | IOException | GeneralSecurityException error) {
            Fetcher.log("toehold-fetcher: %s%n%s", error.getMessage(), USAGE);
            System.exit(2);
        }
        return options;
    }

    private void set(String option, String value) throws IOException, GeneralSecurityException {
        switch (option) {
            case "--frontier" -> frontier = value;
            case "--crawl" -> crawl = value;
            case "--name" -> name = value;
            case "--toes" -> {
                if (!value.matches("[1-9][0-9]{0,3}")) {
                    throw new IllegalArgumentException("--toes must be between 1 and 9999, got " + value);
                }
                toes = Integer.parseInt(value);
            }
            case "--resolve" -> {
                String[] parts = value.split(":", 3);
                if (parts.length < 3) {
                    throw new IllegalArgumentException("--resolve must be HOST:PORT:ADDRESS, got " + value);
                }
                resolve.put(parts[0] + ":" + parts[1], InetAddresses.forString(parts[2]));
            }
            case "--ca-file" -> tls = trusting(value);
            default -> throw new IllegalArgumentException("unknown option " + option);
        }
    }

    private static DefaultClientTlsStrategy trusting(String file)
            throws IOException, GeneralSecurityException {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream pem = new FileInputStream(file)) {
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                trusted.setCertificateEntry("ca-" + trusted.size(), each);
            }
        }
        return new DefaultClientTlsStrategy(SSLContexts.custom().loadTrustMaterial(trusted, null).build());
    }
}
