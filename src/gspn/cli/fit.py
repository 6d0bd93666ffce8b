"""`gspn fit`: train a model and save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gspn.cli import options
from gspn.cli.console import Console


@options.bundled
def fit(
    source: options.Source,
    edges: options.Edges = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model (default: model).", show_default=False)
    ] = Path("model"),
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Learn to predict this: a column of vertices or molecules, a dataset's target "
            "(several times for several).",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            help='What has the target: "vertex", where known labels of others are used to predict one, or "graph" '
            "(default: as the source has it).",
            show_default=False,
        ),
    ] = None,
    targets: Annotated[
        Path | None, typer.Option(help="Table with the targets of graphs, if SOURCE is a table.", show_default=False)
    ] = None,
    types: options.Types = None,
    *,
    forms: options.Forms,
    features: options.Features = None,
    end_to_end: Annotated[
        bool,
        typer.Option(
            "--end-to-end",
            help="Targets of graphs inside the circuit, in place of a head on features of graphs.",
            rich_help_panel="Training",
        ),
    ] = False,
    objective: Annotated[
        str | None,
        typer.Option(
            help="masked (for questions and gaps: the default), pseudo (the paper's; the default below a head) or "
            "leave_one_out.",
            rich_help_panel="Training",
            show_default=False,
        ),
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(
            help="ignorable (the default), or informative: which entries are missing is evidence of the others.",
            rich_help_panel="Training",
            show_default=False,
        ),
    ] = None,
    layers: options.Layers = None,
    states: options.States = None,
    epochs: options.Epochs = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate.", rich_help_panel="Training", show_default=False)
    ] = None,
    seed: options.Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File in which the run is kept, and from which it goes on.", rich_help_panel="Training"),
    ] = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score/--no-score",
            help="With --target: hold a fifth of the labels out, and say how well they are predicted, beside "
            "baselines.",
        ),
    ] = True,
    report: options.Page = None,
    force: options.Force = False,
    printing: options.Printing,
) -> None:
    """Train a model without labels, or with --target one that predicts, and save it as a folder.

    Targets of graphs: the model learns without labels, and of several heads on its features the best one is taken.

    From 100 graphs on a tenth is held out, and training ends when these get no better; of fewer graphs, without
    --target, a tenth of the entries.

    Where vertices have the target, gaps in its column are what is to be predicted, and known values are evidence.

    Examples: gspn fit drugs.smi -o drugs-model; gspn fit drugs.csv --target logp -o logp-model; gspn fit papers.csv
    --edges cites.csv --target topic --level vertex -o topics
    """
    console = printing.console()
    import time

    from gspn.cli.inputs import Wanted, read_graphs
    from gspn.cli.learned_from import KEPT, note_of
    from gspn.cli.options import Reading, parse_types
    from gspn.cli.outputs import check_file, check_folder, save_model
    from gspn.cli.predictors import fit_predictor, judge_again, predicts_graphs, show_held_out, show_predictor
    from gspn.cli.reporting import PAGES, report_gaps, report_targets
    from gspn.cli.training import show_graphs, show_training, train
    from gspn.errors import InputError

    check_folder(output, force)
    check_file(report, force, PAGES)
    if report is not None and target and not score:
        raise InputError("--report with --target shows held-out scores, which --no-score leaves out")
    kinds = parse_types(types)
    wanted = Wanted(
        Reading.of(**vars(forms), features=features),
        types=kinds,
        labels=target or (),
        labels_file=targets,
        progress=console.progress,
    )
    graphs = read_graphs(source, edges, wanted)
    dataset = graphs.dataset
    from gspn.policy import settings_for  # imports torch, which nobody needs to be told what is wrong with a table

    _check_level(dataset, bool(target), level)
    show_graphs(console, dataset, said=None if edges is None else kinds, notes=graphs.notes)
    said_of_model = {"num_layers": layers, "num_states": states, "epochs": epochs, "lr": lr, "seed": seed, "gaps": gaps}
    if target and not end_to_end and predicts_graphs(dataset):
        wanted_of_model = said_of_model | {"objective": objective}
        predictor, held_out = fit_predictor(dataset, console, checkpoint, wanted_of_model, score)
        save_model(predictor, graphs.reading, output, {KEPT: note_of(dataset)})
        told = show_held_out(console, held_out)
        if report is not None and held_out is not None:
            told |= report_targets(console, dataset, held_out, predictor, report, source, seed)
        show_predictor(console, predictor, dataset, list(target), output, told)
        return
    settings = settings_for(dataset, objective=objective or "masked", **said_of_model)
    model = _model(dataset, settings, bool(target))
    start = time.perf_counter()
    of_columns = train(model, dataset, console, checkpoint)
    seconds = time.perf_counter() - start
    show_training(console, model, seconds, of_columns)
    save_model(model, graphs.reading, output, {KEPT: note_of(dataset)} if target else None)
    how: dict[str, Any] = {"settings": settings, "seconds": seconds}
    if report is not None and not target:
        from gspn.reports.making import relearning

        learn, asked = relearning(model, console.progress), f"gspn fit {source} --seed {seed} --report"
        how |= report_gaps(console, dataset, model, report, Path(source).name, asked, learn=learn, seed=seed)
    if target and score:
        held_out = judge_again(model, dataset, console)
        how |= show_held_out(console, held_out)
        if report is not None:
            how |= report_targets(console, dataset, held_out, model, report, source, seed)
    _show(console, model, dataset, list(target or ()), output, how)


def _show(console: Console, model: Any, dataset: Any, target: list[str], output: Path, how: dict[str, Any]) -> None:
    """What was trained and where it is, for people and for machines."""
    console.table(
        [
            {"what": "model", "value": type(model).__name__},
            {"what": "levels, states", "value": f"{model.num_layers}, {model.num_states}"},
            {"what": "graphs", "value": len(dataset)},
            {"what": "attributes", "value": ", ".join(dataset.schema.names)},
            *([{"what": "target", "value": ", ".join(target)}] if target else []),
            {"what": "epochs", "value": len(model.history_)},
            {"what": "saved in", "value": str(output)},
        ]
    )
    console.result(
        {
            "model": str(output),
            "kind": type(model).__name__,
            "graphs": len(dataset),
            "schema": dataset.schema.to_json(),
            "target": target,
            "history": model.history_,
        }
        | how
    )


def _check_level(dataset: Any, supervised: bool, level: str | None) -> None:
    from gspn.arguments import check_choice
    from gspn.errors import InputError

    check_choice("--level", level, (None, "graph", "vertex"))
    if level is not None and not supervised:
        raise InputError("--level says what has the target; --target names one")
    if level is not None and level != dataset.target_level:
        raise InputError(f"--level {level}: but there is one target per {dataset.target_level} in the source")


def _model(dataset: Any, settings: dict[str, Any], supervised: bool) -> Any:
    from gspn.models.gspn import GSPN
    from gspn.models.supervised import SupervisedGSPN

    if not supervised:
        return GSPN(dataset.schema, **settings)
    return SupervisedGSPN(dataset.schema, dataset.target, target_level=dataset.target_level, **settings)
