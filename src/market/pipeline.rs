//! The reference pipeline as a job: two sources over one input, order books, quote changes out.

use super::{
    book::OrderBook,
    event::{OrderEvent, QuoteChange, TradeEvent},
    fault::OnError,
    input::Input,
    line::append_quote_line,
    result::Results,
    source::{OrderSource, TradeSource},
};
use crate::{channel::Record, job::JobBuilder, operator::file_sink::Outputs};

/// The order book pipeline over one input.
///
/// ```text
///   orders source ─ by instrument ─┐
///                                  ├─ book ─ output
///   trades source ─ by instrument ─┘
/// ```
///
/// ```
/// use isobar::job::JobBuilder;
/// use isobar::market::generator::GeneratorOptions;
/// use isobar::market::{Input, OnError, OrderBookPipeline, Results};
///
/// let input = Input::generated(GeneratorOptions { messages: 20_000, symbols: 10, seed: 1 })?;
/// let results = Results::new();
/// let job = JobBuilder::new("orderbook");
/// OrderBookPipeline { input, on_error: OnError::Skip, results: results.clone(), output: None }.add_to(&job);
/// job.build()?.run()?;
/// assert_eq!(results.get().faults.total(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OrderBookPipeline {
    /// What both sources read, each at its own position.
    pub input: Input,
    /// What to do about a rejected message.
    pub on_error: OnError,
    /// Where summary and faults are when the job has ended.
    pub results: Results,
    /// Where a line for each change of a best quote goes, if anywhere.
    pub output: Option<Outputs>,
}

impl OrderBookPipeline {
    /// The operators' names: two sources, the book, and the sink with and without output. By them a store knows what
    /// it holds, so a run with output cannot be continued without, nor the other way round.
    pub const OPERATORS: [&str; 5] = ["orders", "trades", "book", "output", "no output"];

    /// Adds the pipeline to `job`. The book runs with the job's default parallelism.
    pub fn add_to(self, job: &JobBuilder) {
        let Self { input, on_error, results, output } = self;
        let [orders, trades, book, with_output, without] = Self::OPERATORS;
        let names = input.names();
        let orders = job.source(orders, {
            let (input, results) = (input.clone(), results.clone());
            move |_| OrderSource::new(input.clone(), on_error, results.clone())
        });
        let trades = job.source(trades, {
            let results = results.clone();
            move |_| TradeSource::new(input.clone(), on_error, results.clone())
        });
        let changes = orders
            .key_by(|event: &OrderEvent| event.instrument)
            .connect(trades.key_by(|event: &TradeEvent| event.instrument))
            .process(book, move |_| OrderBook::new(on_error, results.clone()));
        match output {
            Some(output) => changes.sink(with_output, move |_| {
                let names = names.clone();
                output.sink(move |record: &Record<QuoteChange>, out: &mut Vec<u8>| {
                    append_quote_line(&names, record.event_ns, &record.value, out);
                })
            }),
            None => changes.for_each(without, |_| {}),
        }
    }
}
