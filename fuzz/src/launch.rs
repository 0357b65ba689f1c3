//! What mpiexec reads: files of hosts, configuration files and command lines, lists of cores, reports of children. The first byte
//! chooses which.

use farpost_launch::fuzzing;

pub fn run(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else {
        return;
    };
    match which % 4 {
        0 => fuzzing::host_file(rest),
        1 => fuzzing::command_line(rest),
        2 => fuzzing::places(&String::from_utf8_lossy(rest)),
        _ => {
            if let Some(report) = rest.first_chunk() {
                fuzzing::report(report);
            }
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let texts: [(u8, &[u8]); 10] = [
        (
            0,
            b"# hosts\nnode1:4\nnode2 slots=3 max_slots=4\nuser@10.0.0.7\n[fd00::1]:2\nfe80::1%eth0\n",
        ),
        (0, b"a.b-c_d.e cpus=2\n\n::1\n"),
        (
            1,
            b"-n 2 -host a,b:3 --bind-to core:2 ./program 'an argument' : -n 1 prog # rest",
        ),
        (
            1,
            b"-np 4 -genv NAME=value -env A b --map-by ppr:2:node --timeout 3 prog",
        ),
        (
            1,
            b"--on-failure continue -wdir dir -prepend-rank -outfile-pattern x prog",
        ),
        (2, b"0-3,8,10-11"),
        (2, b"core:2"),
        (2, b"ppr:2:socket:pe=4"),
        (2, b"hwthread"),
        (3, &[1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]),
    ];
    texts
        .iter()
        .map(|(which, text)| [&[*which], *text].concat())
        .collect()
}
