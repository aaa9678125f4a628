package toehold.examples;

/** The command line. */
final class Options {
    private static final String USAGE = """
        usage: toehold-fetcher [OPTION VALUE]...
          --frontier HOST:PORT   the frontier (default: 127.0.0.1:7707)
          --crawl NAME           fetch for this crawl only
          --name NODE            the node's name (default: java- and the process id)
          --toes N               most fetches at once (default: 10)""";

    String frontier = "127.0.0.1:7707";
    String crawl = "";
    String name = "java-" + ProcessHandle.current().pid();
    int toes = 10;

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
        } catch (IllegalArgumentException error) {
            Fetcher.log("toehold-fetcher: %s%n%s", error.getMessage(), USAGE);
            System.exit(2);
        }
        return options;
    }

    private void set(String option, String value) {
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
            default -> throw new IllegalArgumentException("unknown option " + option);
        }
    }
}
