// The gate: section 5 of the guide. Decisions of a run, folded in order, are what its next calls are to be told.

const REMEMBERED = 256 // decisions per run whose copies are known

const keyOf = target => JSON.stringify([target.tool ?? null, target.args_hash ?? null])

export class Gate {
  #runs = new Map() // run id -> what is known of it

  // Takes in the next decision of its partition; returns whether it is news. A copy (a worker crashed before it had committed)
  // changes nothing, unless it is as of the run's latest event.
  take (decision) {
    const { run_id: id, decision_id: decisionId, as_of: { offset }, target, action } = decision
    if (!this.#runs.has(id)) this.#runs.set(id, { standing: new Map(), seen: new Set(), given: new Set(), newest: -1 })
    const run = this.#runs.get(id)
    const copy = run.seen.has(decisionId)
    if (copy && offset < run.newest) return false
    remember(run.seen, decisionId)
    run.newest = Math.max(run.newest, offset)
    if (action === 'release' || run.given.has(decisionId)) run.standing.delete(keyOf(target))
    else run.standing.set(keyOf(target), decision)
    return !copy
  }

  // What the next call is to be told, or null: what is said about the run, else its tool, else its signature. A warning is told
  // once. `tool` is the normalized name. Decisions in shadow mode are only for reports.
  check (id, tool, argsHash) {
    const run = this.#runs.get(id)
    for (const target of run ? [{}, { tool }, { tool, args_hash: argsHash }] : []) {
      const decision = run.standing.get(keyOf(target))
      if (!decision || decision.mode !== 'enforce') continue
      if (decision.action === 'warn') {
        run.standing.delete(keyOf(target))
        remember(run.given, decision.decision_id)
      }
      return decision
    }
    return null
  }

  // Forgets a run that has ended.
  forget (id) {
    this.#runs.delete(id)
  }
}

function remember (ids, id) {
  ids.add(id)
  if (ids.size > REMEMBERED) ids.delete(ids.values().next().value)
}
