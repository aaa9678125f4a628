"""Options by the command line, variables and a settings file: which one counts, and how errors name them."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from toehold_base.options.command import Program, spelt_out
from toehold_base.options.file import config_option
from toehold_base.options.variables import UnknownVariable, give_variables, unknown_variables

Told = dict[str, Any]


def program(told: Told) -> click.Command:
    """A program with options of all kinds, which tells what it was given."""

    @click.command(cls=Program, variables="TOEHOLD_NODE")
    @click.option("--max-toes", "toe_count", type=click.IntRange(1, 9), default=4)
    @click.option("--hours", type=float)
    @click.option("--insecure", is_flag=True)
    @click.option("--resolve", "resolves", multiple=True)
    @click.option("--kind", type=click.Choice(["a", "b"]))
    @click.option("--tls-ca", envvar="TOEHOLD_TLS_CA", show_envvar=True, help="A file.")
    @click.option("--worker", hidden=True)
    @config_option("A file.")
    @click.version_option("1")
    def main(**given: Any) -> None:
        told.update(given, spelt_out=spelt_out(click.get_current_context()))

    return main


class Shell:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "node.toml"
        self.told: Told = {}

    def __call__(self, *words: str, file: str = "", **variables: str) -> Result:
        if file:
            self.file.write_text(file)
            words = ("--config", str(self.file), *words)
        self.told.clear()
        return CliRunner().invoke(program(self.told), list(words), env=dict(variables))

    def refused(self, *words: str, file: str = "", **variables: str) -> str:
        """The error of a start that ends with exit code 2."""
        result = self(*words, file=file, **variables)
        assert (result.exit_code, self.told) == (2, {})
        return result.output.splitlines()[-1].removeprefix("Error: ").replace(str(self.file), "FILE")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_command_line_counts_before_a_variable_before_the_file_before_the_default(shell: Shell) -> None:
    for expected, words, file, variables in (
        (4, (), "", {}),
        (3, (), "max_toes = 3", {}),
        (2, (), "max_toes = 3", {"TOEHOLD_NODE_MAX_TOES": "2"}),
        (1, ("--max-toes", "1"), "max_toes = 3", {"TOEHOLD_NODE_MAX_TOES": "2"}),
    ):
        assert shell(*words, file=file, **variables).exit_code == 0
        assert shell.told["toe_count"] == expected


def test_an_empty_variable_counts_as_not_set(shell: Shell) -> None:
    assert shell(file="max_toes = 3", TOEHOLD_NODE_MAX_TOES="", TOEHOLD_NODE_INSECURE="").exit_code == 0
    assert (shell.told["toe_count"], shell.told["insecure"]) == (3, False)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("ON", True), ("yes", True), ("0", False), ("no", False)]
)
def test_a_variable_says_yes_or_no_in_several_ways(shell: Shell, text: str, value: bool) -> None:
    assert shell(TOEHOLD_NODE_INSECURE=text, file=f"insecure = {str(not value).lower()}").exit_code == 0
    assert shell.told["insecure"] is value


def test_an_option_that_may_be_repeated_takes_a_list_from_a_file_and_words_from_a_variable(
    shell: Shell,
) -> None:
    shell(file='resolve = ["a:1:b", "c:2:d"]')
    assert shell.told["resolves"] == ("a:1:b", "c:2:d")
    shell(TOEHOLD_NODE_RESOLVE="e:3:f  g:4:h")
    assert shell.told["resolves"] == ("e:3:f", "g:4:h")


def test_the_variable_of_one_program_counts_before_the_one_that_all_share(shell: Shell) -> None:
    shell(TOEHOLD_TLS_CA="all.crt", file='tls_ca = "file.crt"')
    assert shell.told["tls_ca"] == "all.crt"
    shell(TOEHOLD_TLS_CA="all.crt", TOEHOLD_NODE_TLS_CA="own.crt")
    assert shell.told["tls_ca"] == "own.crt"


def test_a_variable_may_name_the_file(shell: Shell) -> None:
    shell.file.write_text("max_toes = 7")
    shell(TOEHOLD_NODE_CONFIG=str(shell.file))
    assert shell.told["toe_count"] == 7


def test_help_names_the_variable_that_all_share_once(shell: Shell) -> None:
    assert "[env var: TOEHOLD_TLS_CA]" in shell("--help").output


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("TOEHOLD_NODE_INSECURE", "perhaps", "'perhaps' is not a valid boolean"),
        ("TOEHOLD_NODE_HOURS", "long", "'long' is not a valid float"),
        ("TOEHOLD_NODE_KIND", "c", "'c' is not one of 'a', 'b'"),
        ("TOEHOLD_NODE_MAX_TOES", "10", "10 is not in the range 1<=x<=9"),
    ],
)
def test_an_error_names_the_variable_that_has_the_value(
    shell: Shell, variable: str, text: str, words: str
) -> None:
    said = shell.refused(**{variable: text}, file='kind = "a"')
    assert said.startswith(f"Invalid value for '{variable}': {words}")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ('max_toes = "many"', 'settings file FILE: max_toes must be a whole number, got "many"'),
        ("max_toes = true", "settings file FILE: max_toes must be a whole number, got true"),
        ("max_toes = 1.5", "settings file FILE: max_toes must be a whole number, got 1.5"),
        ('hours = "3"', 'settings file FILE: hours must be a number, got "3"'),
        ("insecure = 1", "settings file FILE: insecure must be true or false, got 1"),
        ("kind = 7", "settings file FILE: kind must be text, got 7"),
        ('resolve = "a"', 'settings file FILE: resolve must be a list of texts, got "a"'),
        ('resolve = ["a", 1]', 'settings file FILE: resolve must be a list of texts, got ["a", 1]'),
        ("max_tose = 1", "settings file FILE: max_tose is not a setting; did you mean max_toes?"),
        ("toe_count = 1", "settings file FILE: toe_count is not a setting; the settings here are hours, "),
        ("worker = 1", "settings file FILE: worker is not a setting; the settings here are hours, "),
        ("config = 'x'", "settings file FILE: config is not a setting; the settings here are hours, "),
        ("[hours]\nx = 1", "settings file FILE: hours must be a number, got {"),
        ("max_toes = 10", "Invalid value for 'max_toes' in FILE: 10 is not in the range 1<=x<=9."),
        ('kind = "c"', "Invalid value for 'kind' in FILE: 'c' is not one of 'a', 'b'."),
        ("max_toes", "settings file FILE must be TOML: "),
        ("x = " + "[" * 100_000, "settings file FILE"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key_the_value_and_what_is_right(
    shell: Shell, file: str, said: str
) -> None:
    assert shell.refused(file=file).startswith(said)


def test_a_file_that_cannot_be_read_is_refused(shell: Shell) -> None:
    assert shell.refused("--config", "/nonexistent/x") == (
        "settings file /nonexistent/x: No such file or directory"
    )


def test_options_are_spelt_out_for_another_process_wherever_they_came_from(shell: Shell) -> None:
    shell("--kind=b", file='resolve = ["a", "b"]\ninsecure = true', TOEHOLD_NODE_HOURS="1.5")
    spelt = shell.told.pop("spelt_out")
    before = dict(shell.told)
    assert spelt == ["--max-toes=4", "--hours=1.5", "--insecure", "--resolve=a", "--resolve=b", "--kind=b"]
    assert shell(*spelt).exit_code == 0
    assert {**shell.told, "spelt_out": 0} == {**before, "spelt_out": 0}


# Groups of commands.


def group(told: Told) -> click.Group:
    @click.group()
    @config_option("A file.")
    def tool() -> None:
        pass

    @tool.command()
    @click.option("--crawl", "name", envvar="TOEHOLD_CRAWL")
    @click.option("--limit", type=int)
    def watch(**given: Any) -> None:
        told.update(given)

    @tool.group()
    def callers() -> None:
        pass

    @callers.command("set")
    @click.option("--crawl", "crawls", multiple=True)
    @click.option("--limit", type=int)
    def set_caller(**given: Any) -> None:
        told.update(given)

    give_variables(tool, "TOEHOLD")
    return tool


def tell(tmp_path: Path, *words: str, file: str = "", **variables: str) -> Told:
    told: Told = {}
    path = tmp_path / "tool.toml"
    path.write_text(file)
    result = CliRunner().invoke(group(told), ["--config", str(path), *words], env=dict(variables))
    assert result.exit_code == 0, result.output
    return told


def test_a_key_above_the_tables_holds_for_every_command_and_a_table_for_one(tmp_path: Path) -> None:
    file = "limit = 1\n[watch]\nlimit = 2\n"
    assert tell(tmp_path, "watch", file=file)["limit"] == 2
    assert tell(tmp_path, "callers", "set", file=file)["limit"] == 1
    assert tell(tmp_path, "callers", "set", file=f"{file}[callers]\nlimit = 3\n")["limit"] == 3
    both = f"{file}[callers]\nlimit = 3\n[callers.set]\nlimit = 4\n"
    assert tell(tmp_path, "callers", "set", file=both)["limit"] == 4


def test_a_key_is_about_the_options_that_share_a_variable_and_not_about_others_of_its_name(
    tmp_path: Path,
) -> None:
    assert tell(tmp_path, "watch", file='crawl = "docs"')["name"] == "docs"
    assert tell(tmp_path, "callers", "set", file='crawl = "docs"')["crawls"] == ()
    assert tell(tmp_path, "callers", "set", file='[callers.set]\ncrawl = ["a"]')["crawls"] == ("a",)


def test_each_option_of_a_command_has_a_variable_with_the_name_of_the_command(tmp_path: Path) -> None:
    assert tell(tmp_path, "watch", file="[watch]\nlimit = 1", TOEHOLD_WATCH_LIMIT="5")["limit"] == 5
    assert tell(tmp_path, "callers", "set", TOEHOLD_CALLERS_SET_CRAWL="a b")["crawls"] == ("a", "b")
    assert tell(tmp_path, "watch", TOEHOLD_WATCH_CRAWL="own", TOEHOLD_CRAWL="all")["name"] == "own"


# Variables that nobody knows.

NODE = program({})


def test_a_variable_that_no_option_has_is_found_and_the_one_that_was_meant(tmp_path: Path) -> None:
    environment = {
        "TOEHOLD_NODE_MAX_TOES": "1",
        "TOEHOLD_NODE_MAX_TOSE": "1",
        "TOEHOLD_NODE_QQQQQQQQ": "1",
        "TOEHOLD_NOED_MAX_TOES": "1",
        "TOEHOLD_NODE_WORKER": "1",
    }
    assert unknown_variables(environment, NODE, "TOEHOLD_NODE_") == [
        UnknownVariable("TOEHOLD_NODE_MAX_TOSE", "TOEHOLD_NODE_MAX_TOES"),
        UnknownVariable("TOEHOLD_NODE_QQQQQQQQ", ""),
        UnknownVariable("TOEHOLD_NODE_WORKER", ""),
        UnknownVariable("TOEHOLD_NOED_MAX_TOES", "TOEHOLD_NODE_MAX_TOES"),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOEHOLD_FRONTIER_MAX_TOES", "1"),  # another program's
        ("TOEHOLD_TLS_CA", "x"),
        ("TOEHOLD_HOME", "x"),
        ("TOEHOLD_NODE_MAX_TOSE", ""),
        ("NODE_MAX_TOES", "1"),
        # Kubernetes sets these for a service `toehold-node`.
        ("TOEHOLD_NODE_SERVICE_HOST", "10.0.0.1"),
        ("TOEHOLD_NODE_SERVICE_PORT", "7708"),
        ("TOEHOLD_NODE_SERVICE_PORT_GRPC", "7708"),
        ("TOEHOLD_NODE_PORT", "tcp://10.0.0.1:7708"),
        ("TOEHOLD_NODE_PORT_7708_TCP", "tcp://10.0.0.1:7708"),
        ("TOEHOLD_NODE_PORT_7708_TCP_ADDR", "10.0.0.1"),
        ("TOEHOLD_NODE_METRICS_PORT_9708_TCP_PROTO", "tcp"),
    ],
)
def test_variables_of_others_are_left_alone(name: str, value: str) -> None:
    assert unknown_variables({name: value}, NODE, "TOEHOLD_NODE_") == []


def test_a_port_that_is_no_service_of_kubernetes_is_a_misunderstanding() -> None:
    found = unknown_variables({"TOEHOLD_NODE_PORT": "7708"}, NODE, "TOEHOLD_NODE_")
    assert [each.name for each in found] == ["TOEHOLD_NODE_PORT"]
