use super::*;

fn open(name: &str) -> Machine {
    Machine::open(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_machines_that_come_with_farpost_are_right() {
    for name in Machine::names() {
        let machine = open(name);
        assert_eq!(machine.name, name);
        assert!(machine.fitted().len() <= MOST_FITTED);
        assert!(machine.numbers().len() > 30, "{name}");
    }
}

/// Machine files as they once were: what is tested with them does not follow the numbers of those that come with Farpost, which are fitted anew.
const FILES: &[(&str, &str)] = &[
    ("sun-fire-link", include_str!("tests/sun-fire-link.toml")),
    ("myrinet-fm", include_str!("tests/myrinet-fm.toml")),
    ("startx", include_str!("tests/startx.toml")),
    ("xt3", include_str!("tests/xt3.toml")),
    ("cluster-100g", include_str!("tests/cluster-100g.toml")),
];

fn text(name: &str) -> &'static str {
    FILES
        .iter()
        .find(|(file, _)| *file == name)
        .expect("one of the files")
        .1
}

fn example(name: &str) -> Machine {
    Machine::parse(&format!("{name}.toml"), text(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Machine, what of its text becomes what, and how the error begins after `my.toml:`.
const BAD: &[(&str, &str, &str, &str)] = &[
    (
        "xt3",
        "name = \"xt3\"",
        "name = xt3",
        "3: string values must be quoted, allowed is literal string",
    ),
    (
        "xt3",
        "trap =",
        "trapp =",
        "16: host: unknown key `trapp`, allowed a",
    ),
    (
        "xt3",
        "mpi_send =",
        "mpi_sent =",
        "26: software: unknown key `mpi_sent`, allowed a",
    ),
    ("xt3", "[host]", "[hosts]", "7: unknown key `hosts`, allowed a"),
    (
        "xt3",
        "sram = { value",
        "sram = { size",
        "49: adapter.seastar.sram: unknown key `size`, allowed are `value`, `source`, `fitted`, `assumed`, `follows`",
    ),
    (
        "xt3",
        "hop = { value = \"50 ns\",",
        "# {",
        "33: topology.torus: missing key `hop`",
    ),
    (
        "xt3",
        "inline = {",
        "# {",
        "46: adapter.seastar: missing key `inline`",
    ),
    ("xt3", "title = ", "# ", "1: missing key `title`"),
    (
        "xt3",
        "[memory]\n",
        "",
        "29: software: unknown key `latency`, allowed a",
    ),
    (
        "xt3",
        "\"75 ns\", source",
        "\"-75 ns\", source",
        "16: host.trap: value \"-75 ns\" is negative, allowed is a time like \"1.5 us\", in ps, ns, us, ms or s",
    ),
    (
        "xt3",
        "\"75 ns\", source",
        "\"75ns\", source",
        "16: host.trap: value \"75ns\" is no number with a unit, allowed is a time like \"1.5 us\", in ps, ns, us, ms or s",
    ),
    (
        "xt3",
        "\"75 ns\", source",
        "\"75 MB/s\", source",
        "16: host.trap: value \"75 MB/s\" has a wrong unit, allowed is a time like \"1.5 us\", in ps, ns, us, ms or s",
    ),
    (
        "xt3",
        "\"75 ns\", source",
        "75, source",
        "16: host.trap: value 75 has no unit, allowed is a time like \"1.5 us\", in ps, ns, us, ms or s",
    ),
    (
        "xt3",
        "\"2.8 GB/s\"",
        "\"0 GB/s\"",
        "64: adapter.seastar.hypertransport: value \"0 GB/s\" is zero, allowed i",
    ),
    (
        "xt3",
        "\"384 KiB\"",
        "\"384 KB\"",
        "49: adapter.seastar.sram: value \"384 KB\" has a wrong unit, allowed i",
    ),
    (
        "xt3",
        "value = 1274",
        "value = 0",
        "53: adapter.seastar.pendings: value 0 is zero, allowed is a whole number from 1 to 4294967295",
    ),
    (
        "xt3",
        "value = 1274",
        "value = 12.5",
        "53: adapter.seastar.pendings: value 12.5 is out of range, allowed is a whole number from 1 to 4294967295",
    ),
    (
        "xt3",
        "value = 1274",
        "value = true",
        "53: adapter.seastar.pendings: value true is no number, allowed is a whole number from 1 to 4294967295",
    ),
    (
        "xt3",
        "pools = { value = 1,",
        "pools = { value = 5,",
        "49: image, sources and pendings of adapter.seastar need 462976 bytes, allowed is sram (393216)",
    ),
    (
        "xt3",
        "\"12 B\"",
        "\"64 B\"",
        "67: adapter.seastar.inline (64 bytes) leaves no header in a packet (64 bytes), allowed is less",
    ),
    (
        "xt3",
        "dma = { value = \"1.11",
        "dma = { value = \"3.11",
        "63: adapter.seastar.dma (3110000000 B/s) is more than hypertransport (2800000000 B/s), allowed is at most that",
    ),
    (
        "xt3",
        "value = 27,",
        "value = 2,",
        "8: host.hosts is 10368, allowed is at most 768, the ports of topology.torus",
    ),
    (
        "xt3",
        "value = 10368",
        "value = 10369",
        "8: host.hosts is 10369, allowed is at most 10368, the ports of topology.torus",
    ),
    (
        "xt3",
        "rings = [false, false, true]",
        "rings = [false, true]",
        "39: topology.torus.rings: invalid length 2, allowed is an array of length 3",
    ),
    (
        "xt3",
        "[topology.torus]",
        "[topology.hypercube]",
        "33: topology.hypercube: there is more than one kind, allowed is one",
    ),
    (
        "xt3",
        "[topology.torus",
        "[topology.hypercube",
        "33: topology: unknown kind `hypercube`, allowed a",
    ),
    (
        "xt3",
        "value = 1274",
        "value = -3",
        "53: adapter.seastar.pendings: value -3 is negative, allowed is a whole number from 1 to 4294967295",
    ),
    (
        "xt3",
        "hop = {",
        "hop = \"50 ns\" # {",
        "40: topology.torus.hop: invalid type: string \"50 ns\", allowed i",
    ),
    (
        "xt3",
        "trap = {",
        "poll = {",
        "16: this key is there twice, allowed is once",
    ),
    (
        "xt3",
        "mode = \"generic\"",
        "mode = \"fast\"",
        "47: adapter.seastar.mode: unknown kind `fast`, allowed is `generic` or `accelerated`",
    ),
    (
        "xt3",
        ", source = \"XT3 3.3: NULL trap of Catamount\"",
        "",
        "16: host.trap: value \"75 ns\" has no origin, allowed are source, fitted, assumed",
    ),
    (
        "xt3",
        "75 ns\", source",
        "75 ns\", fitted = \"P1\", source",
        "16: host.trap: value \"75 ns\" has several origins, allowed are source, fitted, assumed",
    ),
    (
        "xt3",
        "75 ns\", source",
        "75 ns\", fitted",
        "16: host.trap: fitted \"XT3 3.3: NULL trap of Catamount\" is no row of the papers' results, allowed are S1 to S17, F1 to F17, X1 to X15 and P1 to P18",
    ),
    (
        "xt3",
        "source = \"XT3 3.3: at least\"",
        "source = \"\"",
        "17: host.interrupt: value \"2 us\" has an empty origin, allowed is a document and its section, or why this value",
    ),
    (
        "xt3",
        "up_to = { value = \"1 MiB\", source = \"Opteron 246: second-level cache\" }, ",
        "",
        "12: host.copy has no up_to before its last level, allowed is",
    ),
    (
        "sun-fire-link",
        "links_per_ni = { value = 2,",
        "links_per_ni = { value = 1,",
        "42: topology.crossbar has 4 rails, more links than adapter.rsm.nis (2) times links_per_ni (1): allowed are 2",
    ),
    (
        "sun-fire-link",
        "spin = { value = \"10 us\"",
        "spin = { value = \"10 s\"",
        "58: adapter.rsm.retry.spin (10.000 s) is more than sleep (20.000 ms), allowed is at most that",
    ),
    (
        "sun-fire-link",
        "both = { value = \"1.6",
        "both = { value = \"2.6",
        "36: topology link.both (2600000000 B/s) contradicts link.rate (1000000000 B/s), allowed is from the rate to twice the rate",
    ),
    (
        "myrinet-fm",
        "ports = { value = 8,",
        "ports = { value = 4,",
        "8: host.hosts is 8, allowed is at most 4, the ports of topology.switch",
    ),
    (
        "myrinet-fm",
        "\"128 KiB\"",
        "\"64 KiB\"",
        "46: program and queues of adapter.lanai need 122880 bytes, allowed is memory (65536)",
    ),
    (
        "myrinet-fm",
        "\"24 KiB\"",
        "\"100 B\"",
        "64: adapter.lanai.send_queue (100 bytes) holds no packet, allowed is",
    ),
    (
        "startx",
        "priorities = { value = 2,",
        "priorities = { value = 1,",
        "45: adapter.startx needs two priorities, topology.fat_tree has 1 (link.priorities): allowed is 2",
    ),
    (
        "startx",
        "priorities = { value = 2,",
        "priorities = { value = 9,",
        "42: topology link.priorities is 9, allowed is 1 or 2",
    ),
    (
        "startx",
        "priorities =",
        "both = { value = \"300 MB/s\", source = \"a test\" }\npriorities =",
        "42: topology.fat_tree.link.both (300000000 B/s) is not modelled, allowed is",
    ),
    (
        "startx",
        "radix = { value = 4,",
        "radix = { value = 5,",
        "34: topology.fat_tree.radix is 5, allowed is an even number from 4",
    ),
    (
        "startx",
        "\"32 B\"",
        "\"128 B\"",
        "66: adapter.startx.rdma.burst is 128 bytes, allowed are 1 to those of line (64)",
    ),
    (
        "startx",
        "least_payload = { value = \"8 B\"",
        "least_payload = { value = \"92 B\"",
        "48: adapter.startx.least_payload (92 bytes) is more than message minus header (88 bytes), allowed is at most that",
    ),
    (
        "startx",
        "\"88 B\"",
        "\"96 B\"",
        "65: adapter.startx.rdma.payload (96 bytes) is more than message minus header (88 bytes), allowed is at most that",
    ),
    (
        "startx",
        "source = \"StarT-X 5.1: 22 words\"",
        "fitted = \"X6\"",
        "1: 7 numbers are fitted, allowed are 6",
    ),
    (
        "cluster-100g",
        "levels = { value = 2,",
        "levels = { value = 5,",
        "42: topology.fat_tree.levels is 5 of radix 64, allowed is what has at most 1048576 ports",
    ),
    (
        "cluster-100g",
        "\"1 MiB\"",
        "\"16 KiB\"",
        "12: up_to of host.copy falls from 32768 to 16384 bytes, allowed are sizes that rise",
    ),
    (
        "cluster-100g",
        "\"220 B\"",
        "\"5 KiB\"",
        "58: adapter.rdma.inline (5120 bytes) is more than packet (4096 bytes), allowed is at most that",
    ),
    (
        "cluster-100g",
        "[adapter.rdma]",
        "[adapter.ethernet]",
        "50: adapter: unknown kind `ethernet`, allowed are `rsm`, `lanai`, `startx`, `seastar`, `rdma`",
    ),
];

#[test]
fn what_is_wrong_with_a_file_is_said_in_one_line() {
    for (name, old, new, expected) in BAD {
        let text = text(name);
        assert!(text.contains(old), "{name}: {old}");
        let error = Machine::parse("my.toml", &text.replace(old, new))
            .map(|_| ())
            .expect_err(new);
        let said = error.0.strip_prefix("my.toml:").expect("file and line first");
        assert!(said.starts_with(expected), "{new}: {said}\nexpected {expected}");
        assert!(
            !said.contains('\n') && said.contains("allowed") | said.contains("missing key"),
            "{said}"
        );
    }
}

#[test]
fn more_ranks_than_processors_and_unknown_machines_are_refused() {
    let sun = example("sun-fire-link");
    assert_eq!(sun.most_ranks(), 192);
    assert_eq!(sun.hosts_for(92, Some(23)), Ok(4));
    assert_eq!(sun.hosts_for(25, None), Ok(2));
    let said = |result: Result<u32, MachineError>| result.expect_err("too many").0;
    assert_eq!(
        said(sun.hosts_for(193, None)),
        "sun-fire-link: 193 ranks, 24 on each host, need 9 hosts; allowed are 8 (host.hosts)"
    );
    assert_eq!(
        said(sun.hosts_for(193, Some(25))),
        "sun-fire-link: 25 ranks on each host, allowed are 1 to 24"
    );
    let said = |name| Machine::open(name).map(|_| ()).expect_err("unknown").0;
    assert_eq!(
        said("xt4"),
        "unknown machine xt4, allowed are sun-fire-link, myrinet-fm, startx, xt3, cluster-100g or the path of a file"
    );
    assert!(said("/nowhere/my.toml").starts_with("cannot read machine file /nowhere/my.toml: "));
}

#[test]
fn a_file_of_ones_own_is_opened_by_its_path() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/xt3.toml");
    assert_eq!(
        Machine::open(path).map(|machine| machine.name.clone()),
        Ok("xt3".into())
    );
}

#[test]
fn fitted_numbers_are_listed_with_their_rows_and_changed_by_their_paths() {
    let sun = example("sun-fire-link");
    let store = |machine: &Machine| match &machine.adapter {
        AdapterSpec::Rsm(rsm) => rsm.store.value,
        other => panic!("{}", other.kind()),
    };
    let (number, row) = sun
        .fitted()
        .into_iter()
        .find(|(_, row)| row == "S6")
        .expect("fitted");
    assert_eq!((&number.path[..], &row[..]), ("adapter.rsm.store", "S6"));
    assert_eq!(number.origin, Origin::Fitted("S6".into()));
    let changed = sun.scaled("adapter.rsm.store", 1.2).expect("a number");
    assert_eq!(store(&changed).0 as f64, store(&sun).0 as f64 * 1.2);
    assert_eq!(changed.numbers().len(), sun.numbers().len());
    for name in Machine::names() {
        let machine = open(name);
        for (number, row) in machine.fitted() {
            for factor in [0.8, 1.2] {
                let changed = machine.scaled(&number.path, factor);
                let changed = changed.unwrap_or_else(|error| panic!("{} ({row}): {error}", number.path));
                let differ = changed
                    .numbers()
                    .into_iter()
                    .zip(machine.numbers())
                    .filter(|(a, b)| a != b)
                    .count();
                let numbers = machine.numbers();
                let followers = numbers
                    .iter()
                    .filter(|it| it.follows.as_ref() == Some(&number.path));
                assert_eq!(differ, 1 + followers.count(), "{}", number.path);
            }
        }
    }
}

#[test]
fn choices_and_values_are_changed_by_their_paths() {
    let fm = example("myrinet-fm").with("adapter.lanai.bus", "all-dma");
    let fm = fm
        .and_then(|fm| fm.with("adapter.lanai.frame", "512 B"))
        .expect("both are there");
    let AdapterSpec::Lanai(lanai) = &fm.adapter else {
        panic!("{}", fm.adapter.kind())
    };
    assert_eq!((lanai.bus, lanai.frame.value), (LanaiBus::AllDma, Bytes(512)));
    let said = |result: Result<Machine, MachineError>| result.map(|_| ()).expect_err("wrong").0;
    assert_eq!(
        said(fm.with("adapter.lanai.buss", "x")),
        "myrinet-fm.toml: there is nothing at adapter.lanai.buss"
    );
    assert_eq!(
        said(fm.scaled("adapter.lanai", 2.0)),
        "myrinet-fm.toml: there is no single number or choice at adapter.lanai"
    );
    assert_eq!(
        said(fm.scaled("adapter.lanai.bus", 2.0)),
        "myrinet-fm.toml: adapter.lanai.bus is \"all-dma\", no number"
    );
    assert!(said(fm.with("adapter.lanai.bus", "none")).contains("unknown kind `none`"));
    assert!(said(fm.scaled("adapter.lanai.memory", 0.1)).contains("allowed is memory"));
    let sun = example("sun-fire-link")
        .scaled("host.copy.0.up_to", 0.5)
        .expect("a number in a list");
    assert_eq!(sun.host.copy[0].up_to.as_deref(), Some(&Bytes(4 << 20)));
}

#[test]
fn copies_go_by_the_level_that_holds_them() {
    let host = &example("cluster-100g").host;
    let copied =
        [32 << 10, (32 << 10) + 1, 10 << 20].map(|bytes| bytes as f64 / host.copy_time(bytes).secs());
    for (rate, expected) in copied.iter().zip([60e9, 30e9, 12e9]) {
        assert!((rate / expected - 1.0).abs() < 1e-3, "{rate} {expected}");
    }
}

#[test]
fn a_number_that_follows_another_is_scaled_with_it() {
    let follows = |of: &str| {
        let old = "mpi_receive = { value = \"1.1 us\", ";
        assert!(text("xt3").contains(old));
        text("xt3").replace(old, &format!("{old}follows = \"{of}\", "))
    };
    let machine = Machine::parse("my.toml", &follows("software.mpi_send")).expect("it is right");
    let scaled = machine.scaled("software.mpi_send", 2.0).expect("a number");
    assert_eq!(scaled.software.mpi_send.nanos(), 2200);
    assert_eq!(scaled.software.mpi_receive.nanos(), 2200);
    let alone = machine.scaled("software.mpi_receive", 2.0).expect("a number");
    assert_eq!(alone.software.mpi_send.nanos(), 1100);
    for of in ["software.mpi_sent", "software.mpi_receive"] {
        let error = Machine::parse("my.toml", &follows(of))
            .expect_err("nothing to follow")
            .0;
        let what =
            format!("my.toml:27: software.mpi_receive follows {of}, allowed is the path of another number");
        assert_eq!(error, what);
    }
    let unsaid = text("xt3").replace("trap = {", "trap = { follows = \"host.poll\",");
    let error = Machine::parse("my.toml", &unsaid).expect_err("why").0;
    assert!(
        error.starts_with("my.toml:16: host.trap: value \"75 ns\" follows another number"),
        "{error}"
    );
}
