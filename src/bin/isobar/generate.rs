//! `isobar generate`: the generator's output as a file.

use isobar::market::generator::Generator;

use crate::arguments::{GenerateArguments, GenerateWhat};
use crate::failure::Failure;
use crate::{files, units};

/// Writes the file, whole or not at all.
pub fn generate(what: GenerateWhat) -> Result<(), Failure> {
    let GenerateWhat::Itch50(GenerateArguments { out, generated }) = what;
    let generator = Generator::new(generated.into());
    let mut generator = generator.map_err(|error| Failure::Usage(error.to_string()))?;
    let bytes = files::write_whole(&out, |file| generator.write_to(file))?;
    files::print(&format!(
        "{}: {} messages, {}\n",
        out.display(),
        units::count(generated.messages),
        units::bytes(bytes)
    ))
}
