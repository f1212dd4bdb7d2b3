//! The reference pipeline: market data in, order books by instrument, changes of the best quotes out.
//!
//! ```text
//! orders source ─ by instrument ─┐
//!                                ├─ book (keyed state: orders, price levels; two inputs) ─ sink
//! trades source ─ by instrument ─┘
//! ```

use std::hint::black_box;

use super::{Input, OnError, OrderBook, OrderSource, QuoteChange, Results, TradeSource, append_quote_line};
use crate::channel::Record;
use crate::job::JobBuilder;
use crate::operator::file_sink::Outputs;

/// What the pipeline is made of besides the job's own settings.
#[derive(Clone)]
pub struct OrderBookPipeline {
    /// What is read, by each of the two sources on its own.
    pub input: Input,
    /// What to do at a message that is rejected.
    pub on_error: OnError,
    /// Where the operators publish summary rows and errors when they end.
    pub results: Results,
    /// Where lines go; `None`: nowhere.
    pub outputs: Option<Outputs>,
    /// Subtasks of the book.
    pub parallelism: usize,
    /// The cores to use: the sources are on the first one, the books on those that follow, in turn.
    pub cores: Vec<usize>,
}

impl OrderBookPipeline {
    /// Adds the pipeline to a job. A run with output cannot be continued without, nor the other way round: their sinks
    /// have different names, by which a store knows what it holds.
    pub fn add_to(&self, job: &JobBuilder) {
        let Self { input, on_error, results, .. } = self.clone();
        let books: Vec<usize> = self.cores.iter().cycle().skip(1).take(self.cores.len()).copied().collect();
        let sources = &self.cores[..self.cores.len().min(1)];
        let (orders, trades) = ((input.clone(), results.clone()), (input.clone(), results.clone()));
        let book = job
            .source("orders", move |_| OrderSource::new(orders.0.clone(), on_error, orders.1.clone()))
            .cores(sources)
            .key_by(|event| event.instrument)
            .connect(
                job.source("trades", move |_| TradeSource::new(trades.0.clone(), on_error, trades.1.clone()))
                    .cores(sources)
                    .key_by(|event| event.instrument),
            )
            .process("book", move |_| OrderBook::new(on_error, results.clone()))
            .parallelism(self.parallelism)
            .cores(&books);
        match self.outputs.clone() {
            None => book.for_each("no output", |quote| {
                black_box(quote.value);
            }),
            Some(outputs) => {
                let names = self.input.names();
                book.sink("quotes", move |_| {
                    let names = names.clone();
                    outputs.sink(move |record: &Record<QuoteChange>, line: &mut Vec<u8>| {
                        append_quote_line(&names, record.event_ns, &record.value, line);
                    })
                });
            }
        }
    }
}
