//! `mpiexec`, also installed as `mpirun`.

fn main() -> std::process::ExitCode {
    farpost_launch::main_with(std::env::args_os().skip(1))
}
