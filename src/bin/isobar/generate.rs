//! `isobar generate`: market data to a file.

use std::fs::File;
use std::io::{BufWriter, Write};

use isobar::market::generator::{Generator, GeneratorOptions};

use crate::Failure;
use crate::args::GenerateArgs;

pub fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    let options = GeneratorOptions { messages: args.messages, symbols: args.symbols, seed: args.seed };
    let mut generator = Generator::new(options)?;
    let write = || {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&args.out)?);
        generator.write_to(&mut out)?;
        out.flush()
    };
    let mut write = write;
    write().map_err(|error| format!("cannot write {}: {error}; choose another file", args.out.display()))?;
    Ok(())
}
