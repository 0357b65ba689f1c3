//! Declarations against the installed headers.

use super::ffi;
use std::fmt::Write;
use std::process::Command;

/// Sizes that newer headers may exceed: structures that grow at their ends and that only the library makes.
const GROW: [&str; 12] = [
    "struct fi_tx_attr",
    "struct fi_domain_attr",
    "struct fi_ops",
    "struct fi_ops_fabric",
    "struct fi_ops_domain",
    "struct fi_ops_mr",
    "struct fi_ops_av",
    "struct fi_ops_cq",
    "struct fi_ops_cm",
    "struct fi_ops_msg",
    "struct fi_ops_rma",
    "struct fid_ep",
];

/// Every offset, size and constant is what a C compiler finds in the headers.
#[test]
fn layout() {
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_rma.h>\n#include <rdma/fi_eq.h>\n\
         int main(void) {\n",
    );
    let mut expected = Vec::new();
    for (name, size, fields) in ffi::layouts() {
        if !GROW.contains(&name) && name != "struct fi_cq_err_entry" {
            writeln!(source, "printf(\"%zu\\n\", sizeof({name}));").unwrap();
            expected.push((format!("size of {name}"), size as i128));
        }
        for (field, offset) in fields {
            writeln!(source, "printf(\"%zu\\n\", offsetof({name}, {field}));").unwrap();
            expected.push((format!("{name}.{field}"), offset as i128));
        }
    }
    for (name, value) in ffi::constants() {
        // Signed constants are small; the others fill 64 bits.
        writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({name}));").unwrap();
        expected.push((name.to_owned(), value));
    }
    writeln!(source, "printf(\"%u\\n\", FI_VERSION(1, 17));\nreturn 0;\n}}").unwrap();
    expected.push(("FI_VERSION(1, 17)".into(), ffi::version(1, 17).into()));

    let place = std::env::temp_dir().join(format!("farpost-ofi-layout-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let (file, program) = (place.join("layout.c"), place.join("layout"));
    std::fs::write(&file, source).unwrap();
    let outcome = Command::new("cc").arg("-o").arg(&program).arg(&file).output();
    let printed = match &outcome {
        Ok(output) if output.status.success() => Some(Command::new(&program).output().unwrap().stdout),
        _ => None,
    };
    std::fs::remove_dir_all(&place).unwrap();
    let Some(printed) = printed else {
        let why = outcome.map_or_else(
            |error| format!("no C compiler ({error})"),
            |output| {
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .take(3)
                    .collect::<Vec<_>>()
                    .join(" | ")
            },
        );
        // Without the headers there is nothing to compare with; a compiler that finds them must take the program.
        assert!(
            !why.contains("layout.c") || why.contains("No such file"),
            "the program of offsets does not compile: {why}"
        );
        farpost_testing::skipped(&format!(
            "libfabric's declarations were not checked: install cc and libfabric-dev: {why}"
        ));
        return;
    };
    let printed = String::from_utf8(printed).unwrap();
    let found: Vec<i128> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), expected.len());
    let wrong: Vec<String> = expected
        .iter()
        .zip(found)
        .filter(|((_, ours), theirs)| ours != theirs)
        .map(|((what, ours), theirs)| format!("{what}: {ours} here, {theirs} in the headers"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
