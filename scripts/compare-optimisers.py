#!/usr/bin/env python3
"""Compares tune's search with random search, TPE (Optuna) and SMAC, on simulated programs.

    python3 -m venv venv && venv/bin/pip install optuna smac
    cargo build -p numapilot-tune --example budget
    venv/bin/python scripts/compare-optimisers.py --example target/debug/examples/budget --runs 20

The example plays the program: it is given the levels of a plan, and answers with the time of a run.
All methods get the same programs with the same seeds for their noise, and the same number of runs,
the first of which is the default. Random search and TPE name the plan with the least time, SMAC
names its incumbent, and ends early if it has seen all plans. Both optimisers have their default settings and categorical parameters; their
costs are logarithms of times. A plan is close if it takes at most 5 % longer than the best one.
"""

import argparse
import logging
import math
import random
import subprocess
import tempfile
import warnings

import optuna
from ConfigSpace import Categorical, ConfigurationSpace
from smac import HyperparameterOptimizationFacade, Scenario
from smac.main.exceptions import ConfigurationSpaceExhaustedException
from smac.runhistory.dataclasses import TrialValue
from smac.runhistory.enumerations import StatusType

CLOSE = math.log(1.05)
# The cost of a run that failed: the program takes 1 s, so this is slower than any other.
FAILED = math.log(100.0)


class Program:
    """A simulated program."""

    def __init__(self, example, space, seed, runs):
        self.process = subprocess.Popen([example, "ask", space, str(seed), str(runs)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.levels = [int(word) for word in self.process.stdout.readline().split()]

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def run(self, point):
        """The logarithm of the time, or None."""
        seconds = self.ask("run " + " ".join(map(str, point)))
        return math.log(seconds) if seconds > 0 else None

    def regret(self, point):
        """The logarithm of the true time, divided by that of the best plan."""
        regret = self.ask("regret " + " ".join(map(str, point)))
        self.process.stdin.close()
        self.process.wait()
        return regret


def best_seen(seen):
    return min((cost, point) for point, cost in seen if cost is not None)[1]


def by_chance(program, runs, seed):
    chance = random.Random(seed)
    points = [[0] * len(program.levels)]
    points += [[chance.randrange(count) for count in program.levels] for _ in range(runs - 1)]
    return best_seen([(point, program.run(point)) for point in points])


def by_tpe(program, runs, seed):
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    names = [f"factor{i}" for i in range(len(program.levels))]
    study.enqueue_trial({name: 0 for name in names})
    seen = []
    for _ in range(runs):
        trial = study.ask()
        point = [trial.suggest_categorical(name, range(count))
                 for name, count in zip(names, program.levels)]
        cost = program.run(point)
        seen.append((point, cost))
        study.tell(trial, FAILED if cost is None else cost)
    return best_seen(seen)


def by_smac(program, runs, seed):
    names = [f"factor{i}" for i in range(len(program.levels))]
    space = ConfigurationSpace(seed=seed)
    for name, count in zip(names, program.levels):
        space.add(Categorical(name, list(range(count)), default=0))
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, n_trials=runs, seed=seed, output_directory=folder)
        first = HyperparameterOptimizationFacade.get_initial_design(
            scenario, additional_configs=[space.get_default_configuration()])
        smac = HyperparameterOptimizationFacade(scenario, lambda config, seed=0: 0.0,
                                                initial_design=first, overwrite=True,
                                                logging_level=logging.CRITICAL)
        for _ in range(runs):
            try:
                info = smac.ask()
            except ConfigurationSpaceExhaustedException:
                break
            cost = program.run([info.config[name] for name in names])
            status = StatusType.CRASHED if cost is None else StatusType.SUCCESS
            smac.tell(info, TrialValue(FAILED if cost is None else cost, status=status))
        incumbent = smac.intensifier.get_incumbent()
        return [incumbent[name] for name in names]


METHODS = {"random": by_chance, "TPE": by_tpe, "SMAC": by_smac}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--example", required=True, help="the example budget of numapilot-tune")
    parser.add_argument("--space", default="one", choices=["few", "one", "several"],
                        help="few plans, or the number of nodes")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=10000)
    parser.add_argument("--method", choices=METHODS, action="append")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore")
    for name in args.method or METHODS:
        regrets = []
        for seed in range(args.first_seed, args.first_seed + args.searches):
            program = Program(args.example, args.space, seed, args.runs)
            regrets.append(program.regret(METHODS[name](program, args.runs, seed)))
        close = 100 * sum(regret <= CLOSE for regret in regrets) / len(regrets)
        print(f"{name}: within 5 % of the best on {close:.1f} % of {len(regrets)}", flush=True)


if __name__ == "__main__":
    main()
