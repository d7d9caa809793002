"""Configuration from files, variables and flags: what wins, and what a mistake is told."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.addresses import Address, is_loopback, refuse_insecure
from floodmark.config import check, required, setting
from floodmark.config_file import MOST_FILE_BYTES, Loaded, key_of_variable, load
from floodmark.errors import UserError
from floodmark.kafka_properties import NAMES, is_kafka_property
from floodmark.properties import PropertiesError, format_properties, parse_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    node_id: int = required("node.id", "The id.", least=0)
    ratio: float = setting("some.ratio", 0.5, "A share.", least=0, most=1)
    enabled: bool = setting("auto.leader.rebalance.enable", True, "A switch.")
    mode: str = setting("log.flush.mode", "group", "A choice.", one_of=("group", "os"))
    directory: str | None = setting("metadata.log.dir", None, "A path.")
    retention_ms: int | None = setting("log.retention.ms", 7, "A limit.", least=0)
    policy: frozenset[str] = setting(
        "log.cleanup.policy", frozenset({"delete"}), "A set.", one_of=("delete", "compact")
    )
    peers: tuple[Address, ...] = setting("peers", (), "Addresses.", parse=Address.parse)
    from_elsewhere: str = "default"

    def __post_init__(self) -> None:
        check(self)


def sample(text: str, tmp_path: Path, name: str = "server.properties") -> Loaded[Sample]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load(Sample, path=path)


def error_of(text: str, tmp_path: Path, name: str = "server.properties") -> str:
    with pytest.raises(UserError) as caught:
        sample(text, tmp_path, name)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ------------------------------------------------------------------------------------------ values


def test_every_type_is_read_from_properties(tmp_path: Path) -> None:
    text = """
        # a comment
        node.id = 7
        some.ratio: 0.25
        auto.leader.rebalance.enable FALSE
        log.flush.mode=os
        metadata.log.dir=/data/meta
        log.retention.ms=-1
        log.cleanup.policy=compact, delete
        peers=a:1,\\
              [::1]:2
    """
    assert sample(text, tmp_path).config == Sample(
        node_id=7,
        ratio=0.25,
        enabled=False,
        mode="os",
        directory="/data/meta",
        retention_ms=None,
        policy=frozenset({"compact", "delete"}),
        peers=(Address("a", 1), Address("::1", 2)),
    )


def test_toml_says_the_same_with_its_own_types_nested_or_quoted(tmp_path: Path) -> None:
    text = """
        "some.ratio" = 0.25
        peers = ["a:1", "[::1]:2"]
        node.id = 7
        [auto.leader.rebalance]
        enable = false
        [log]
        flush.mode = "os"
        cleanup.policy = ["compact"]
        retention.ms = -1
    """
    config = sample(text, tmp_path, "server.toml").config
    assert config.node_id == 7
    assert config.ratio == 0.25
    assert config.enabled is False
    assert config.mode == "os"
    assert config.policy == {"compact"}
    assert config.retention_ms is None
    assert config.peers == (Address("a", 1), Address("::1", 2))


def test_what_is_not_given_has_its_default(tmp_path: Path) -> None:
    assert sample("node.id=0", tmp_path).config == Sample(node_id=0)


def test_an_empty_optional_value_is_none(tmp_path: Path) -> None:
    assert sample("node.id=0\nmetadata.log.dir=", tmp_path).config.directory is None


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_text("node.id=1\nsome.ratio=0.1\nlog.flush.mode=os\n")
    loaded = load(
        Sample,
        path=path,
        environment={"FLOODMARK_NODE_ID": "2", "FLOODMARK_SOME_RATIO": "0.2", "HOME": "/"},
        flags=["node.id=3"],
    )
    assert loaded.config == Sample(node_id=3, ratio=0.2, mode="os")
    assert loaded.warnings == ()


def test_fields_that_come_from_elsewhere_are_handed_in() -> None:
    loaded = load(Sample, flags=["node.id=1"], known={"from_elsewhere": "there"})
    assert loaded.config.from_elsewhere == "there"


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("FLOODMARK_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("FLOODMARK_A__B", "a_b"),
        ("FLOODMARK_A___B_C", "a-b.c"),
    ],
)
def test_variables_follow_the_rule_of_kafkas_image(variable: str, key: str) -> None:
    assert key_of_variable(variable) == key


def test_what_kubernetes_tells_of_a_service_called_floodmark_is_no_property() -> None:
    environment = {
        "FLOODMARK_SERVICE_HOST": "10.0.0.1",
        "FLOODMARK_SERVICE_PORT": "9092",
        "FLOODMARK_SERVICE_PORT_KAFKA": "9092",
        "FLOODMARK_PORT": "tcp://10.0.0.1:9092",
        "FLOODMARK_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "FLOODMARK_PORT_9092_TCP_ADDR": "10.0.0.1",
        "FLOODMARK_QUORUM_SERVICE_HOST": "10.0.0.1",
        "FLOODMARK_NODE_ID": "1",
    }
    assert load(Sample, environment=environment) == Loaded(config=Sample(node_id=1), warnings=())


# ---------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("node.id=one", "node.id cannot be 'one': it is not a whole number"),
        ("node.id=1.0", "node.id cannot be '1.0': it is not a whole number"),
        ("node.id=\N{ARABIC-INDIC DIGIT ONE}", "it is not a whole number"),
        ("node.id=", "node.id cannot be ''"),
        ("node.id=-5", "node.id cannot be -5; use at least 0"),
        ("node.id=1\nsome.ratio=nan", "some.ratio cannot be 'nan': it is not a number"),
        ("node.id=1\nsome.ratio=2", "some.ratio cannot be 2.0; use at most 1"),
        ("node.id=1\nauto.leader.rebalance.enable=yes", "it is neither true nor false"),
        ("node.id=1\nlog.flush.mode=never", "use one of group, os"),
        ("node.id=1\nlog.cleanup.policy=delete,shrink", "cannot be 'shrink'"),
        ("node.id=1\npeers=a:1,b", "peers cannot be 'a:1,b': it is not host:port"),
        ("log.flush.mode=os", "node.id is missing; set it: The id."),
        ("node.id=\\u12", "line 1: \\u needs four hexadecimal digits"),
    ],
)
def test_a_bad_value_is_told_in_one_line_with_the_file(
    line: str, told: str, tmp_path: Path
) -> None:
    message = error_of(line, tmp_path)
    assert message.startswith(f"{tmp_path / 'server.properties'}: ")
    assert told in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node.id = ", "Invalid value"),
        ("node = 1\nnode.id = 1", "put both in quotes"),
        ("node.id = 2026-01-01", "node.id cannot be a date"),
        ("node.id = [1]", "one value is expected, not a list"),
        ("node.id = true", "it is not a whole number"),
        ('node.id = 1\n"log.flush.mode" = "x"', "use one of group, os"),
    ],
)
def test_bad_toml_is_told_in_one_line_with_the_file(text: str, told: str, tmp_path: Path) -> None:
    message = error_of(text, tmp_path, "a.toml")
    assert message.startswith(f"{tmp_path / 'a.toml'}: ")
    assert told in message


def test_a_mistake_names_the_variable_or_the_flag_that_made_it() -> None:
    with pytest.raises(UserError, match=r"environment variable FLOODMARK_NODE_ID: node\.id "):
        load(Sample, environment={"FLOODMARK_NODE_ID": "x"})
    with pytest.raises(UserError, match=r"--config node\.id: node\.id cannot be -3"):
        load(Sample, flags=["node.id=-3"])
    with pytest.raises(UserError, match=r"--config node\.id is not a property; write"):
        load(Sample, flags=["node.id"])


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load(Sample, path=tmp_path / "missing")
    with pytest.raises(UserError, match="is a directory"):
        load(Sample, path=tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        load(Sample, path=binary)
    binary.write_bytes(b"#" * (MOST_FILE_BYTES + 1))
    with pytest.raises(UserError, match="too large"):
        load(Sample, path=binary)


# ------------------------------------------------------------------------------------ unknown keys


def test_kafka_keys_without_a_use_are_accepted_with_one_warning(tmp_path: Path) -> None:
    text = "node.id=1\nnum.io.threads=8\nzookeeper.connect=z:2181\nbackground.threads=3"
    loaded = sample(text, tmp_path)
    assert loaded.config == Sample(node_id=1)
    [warning] = loaded.warnings
    assert str(tmp_path) in warning
    assert warning.endswith("background.threads, num.io.threads, zookeeper.connect")


def test_keys_that_would_protect_are_told_to_protect_nothing(tmp_path: Path) -> None:
    text = "node.id=1\nauthorizer.class.name=X\nssl.keystore.location=/a.jks"
    _, authorizer, keystore = sample(text, tmp_path).warnings
    assert "authorizer.class.name protects nothing" in authorizer
    assert "use ssl.certificate.location and ssl.key.location" in keystore


def test_no_warning_repeats_a_value_of_a_flag() -> None:
    loaded = load(Sample, flags=["node.id=1", "sasl.jaas.config=secret"])
    assert loaded.warnings
    assert "secret" not in " ".join(loaded.warnings)


def test_properties_of_another_program_of_ours_are_accepted_silently() -> None:
    loaded = load(Sample, flags=["node.id=1", "admin.listeners=x"], others=("admin.listeners",))
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("log.segment.byte", "log.segment.bytes"),
        ("nodeid", "node.id"),
        ("some.ration", "some.ratio"),
        ("num.partition", "num.partitions"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(
    key: str, nearest: str, tmp_path: Path
) -> None:
    message = error_of(f"node.id=1\n{key}=1", tmp_path)
    assert f"there is no property {key}; did you mean {nearest}?" in message


def test_a_key_that_is_like_no_other_is_an_error_too(tmp_path: Path) -> None:
    assert "there is no property zzz; remove it" in error_of("zzz=1\nnode.id=1", tmp_path)


def test_kafkas_names_are_the_ones_that_people_have_in_their_files() -> None:
    common = {"broker.id", "listeners", "log.dirs", "num.network.threads", "process.roles"}
    assert common <= NAMES
    assert len(NAMES) > 350
    assert all(name == name.strip() and "," not in name for name in NAMES)
    assert is_kafka_property("listener.name.external.ssl.keystore.location")
    assert not is_kafka_property("listener.name.external")
    assert not is_kafka_property("log.segment.byte")


# -------------------------------------------------------------------------------------- properties


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_properties_survive_being_written_and_read(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)) == values


@given(st.text(alphabet="ab=: #!\\\n\r\t\fu0"))
def test_any_text_is_properties_or_an_error_that_names_a_line(text: str) -> None:
    message = "line 1"
    try:
        parse_properties(text)
    except PropertiesError as error:
        message = str(error)
    assert message.startswith("line ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\na=2", {"a": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a = b = c ", {"a": "b = c "}),
        ("a", {"a": ""}),
        ("a=1\\\n   2\\\n  3", {"a": "123"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("! no\r\n# no\r\na:1\r\n", {"a": "1"}),
        ("a=\\u00e9\\t", {"a": "é\t"}),
        ("a=x\\", {"a": "x"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


# --------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "text", ["host:9092", ":0", "[::1]:9092", "10.0.0.1:65535", "[fe80::1%e]:1"]
)
def test_an_address_is_printed_as_it_was_read(text: str) -> None:
    assert str(Address.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", "host:x", "host:65536", "::1:9092", "[x]:1", "a b:1", "h:-1", "h:²"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Address.parse(text)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_loopback_needs_no_tls(host: str) -> None:
    assert is_loopback(host)
    refuse_insecure(host, tls=False, insecure=False)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "128.0.0.1"]
)
def test_a_listener_that_others_reach_needs_tls_or_a_word(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(UserError, match="insecure=true"):
        refuse_insecure(host, tls=False, insecure=False)
    refuse_insecure(host, tls=True, insecure=False)
    refuse_insecure(host, tls=False, insecure=True)
