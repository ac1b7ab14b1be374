//! Parses the command line, runs the command, ends with its exit code.

fn main() -> std::process::ExitCode {
    sweepctl::cli::main()
}
