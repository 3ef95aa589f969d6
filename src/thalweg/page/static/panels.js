// What stands around the graph: numbers of the whole, tables, keys, the policy. Texts of the data are text nodes, never markup.

import {html, useState} from '/vendor/htm-preact.module.js'
import {big, bytes, clock, count, duration, instant, plural, seconds, share, time} from '/words.js'
import {told as partsOf} from '/charts.js'
import {seenAs} from '/layout.js'

const FEW = 50

export function Card({id, title, more, wide, children}) {
  return html`<section class=${wide ? 'card wide' : 'card'} id=${id} aria-labelledby=${`${id}-title`}><div class="head"><h2 id=${`${id}-title`}>${title}</h2>${more && html`<span class="soft">${more}</span>`}</div>${children}</section>`
}

const kindOf = given => given === true ? 'number' : given || ''

// columns: [[head, row => cell, true for numbers or 'tight']]; those with nothing in any row are left out, but the first.
export function Table({columns, rows, keys, label, mark, most = FEW}) {
  const [all, setAll] = useState(false)
  const shown = all ? rows : rows.slice(0, most)
  const empty = cell => cell === '' || cell === null || cell === undefined || cell === false
  const used = columns.filter(([, of], n) => n === 0 || rows.some(row => !empty(of(row))))
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table><thead><tr>${used.map(([head, , number]) => html`<th scope="col" class=${kindOf(number)}>${head}</th>`)}</tr></thead>
    <tbody>${shown.map((row, n) => html`<tr key=${keys ? keys(row) : n} data-row=${keys ? keys(row) : n} class=${mark?.(row) || ''}>${used.map(([head, of, number], place) => html`<${place ? 'td' : 'th'} scope=${place ? undefined : 'row'} data-column=${head} class=${kindOf(number)}>${of(row)}<//>`)}</tr>`)}</tbody></table></div>
    ${rows.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${count(rows.length)}</button>`}`
}

export function Tiles({told}) {
  const {snapshot: now, rate} = told
  const both = [...now.sources, ...now.operators], sum = what => both.reduce((all, one) => all + one[what], 0)
  const late = sum('late'), rejected = sum('rejected'), state = now.state.filter(one => one.bytes !== null)
  const latencies = Object.values(now.latency), p99 = latencies.length ? Math.max(...latencies.map(one => one.p99)) : null
  const tiles = [
    ['rows in', count(now.rows_in), 'rows_in'], ['rows/s now', rate === null ? '' : big(rate), 'rate'], ['rows/s, whole run', big(now.rows_per_s), 'rows_per_s'],
    ['p99', p99 === null ? '' : seconds(p99), 'p99'], ['threads', count(now.threads), 'threads'], ['slots', now.slots > 1 || now.host === 'spark' ? count(now.slots) : '', 'slots'],
    ['late', late ? count(late) : '', 'late', 'warn'], ['rejected', rejected ? count(rejected) : '', 'rejected', 'warn'],
    ['state', state.length ? bytes(state.reduce((all, one) => all + one.bytes, 0)) : '', 'state'],
  ]
  return html`<dl class="tiles">${tiles.filter(([, value]) => value !== '').map(([name, value, field, kind]) => html`<div class=${kind || ''}><dt>${name}</dt><dd data-field=${field}>${value}</dd></div>`)}</dl>`
}

// Who holds up the others, in one sentence.
export function Verdict({told, select}) {
  const {snapshot, culprit} = told, one = snapshot.operators.find(o => o.name === culprit)
  const stuck = snapshot.stuck.length > 0 && html`<p class="verdict warn" data-field="stuck">Threads that were told to suspend are still in ${snapshot.stuck.join(', ')}.</p>`
  if (!one) {
    const blind = snapshot.operators.length > 0 && snapshot.operators.every(o => o.busy === null)
    return html`${stuck}<p class="verdict" role="status" data-field="culprit">${blind ? (snapshot.host === 'spark' ? 'Spark does not measure operators: batches and their parts stand below.' : 'How busy operators are is not measured here.') : 'No operator holds up the others.'}</p>`
  }
  const chain = snapshot.operators.filter(o => o.fused_with === culprit), slow = chain.filter(o => o.runs === 'Python')
  const parts = [chain.length > 0 && `one pass with ${chain.map(o => o.name).join(', ')}`, one.busy !== null && `busy ${share(one.busy)}`, one.cost_ns !== null && `${time(one.cost_ns)} a row`, ...[one, ...slow].filter(o => o.runs === 'Python').map(o => `${o === one ? '' : `${o.name} `}in Python${o.reason ? `: ${o.reason}` : ''}`)]
  return html`${stuck}<p class="verdict hot" role="status"><button type="button" class="link" data-field="culprit" onClick=${() => select(`op:${one.name}`)}>▶ ${one.name}</button> ${snapshot.operators.length > 1 ? 'holds up the others' : 'is what takes the time'}: ${parts.filter(Boolean).join(', ')}</p>`
}

const RUNS = one => one.fused_with ? `with ${one.fused_with}` : one.runs || ''

export function Operators({told, select}) {
  const [filter, setFilter] = useState(''), {snapshot, culprit} = told
  const state = new Map(snapshot.state.map(one => [one.operator, one]))
  const rows = snapshot.operators.filter(one => one.name.toLowerCase().includes(filter.toLowerCase()))
  const some = n => n ? count(n) : ''
  const columns = [
    ['operator', one => html`<button type="button" class="link" onClick=${() => select(`op:${one.name}`)}>${one.name === culprit ? '▶ ' : ''}${one.name}</button>`],
    ['runs in', RUNS], ['in', one => count(one.rows_in), true], ['out', one => count(one.rows_out), true], ['late', one => some(one.late), true],
    ['rejected', one => some(one.rejected), true], ['rows/s', one => big(one.rows_per_s), true], ['busy', one => share(one.busy), true],
    ['waits', one => one.back_pressured ? share(one.back_pressured) : '', true], ['queue', one => some(one.queue_rows), true], ['cost/row', one => time(one.cost_ns), true],
    ['keys', one => count(state.get(one.name)?.rows), true], ['state', one => bytes(state.get(one.name)?.bytes), true],
  ]
  return html`<${Card} id="operators" title="Operators" more=${plural(snapshot.operators.length, 'operator')}>
    ${snapshot.operators.length > 12 && html`<label class="filter">Filter <input type="search" id="filter" value=${filter} onInput=${event => setFilter(event.target.value)}/></label>`}
    <${Table} label="Operators" columns=${columns} rows=${rows} keys=${one => one.name} mark=${one => one.name === culprit ? 'culprit' : ''}/><//>`
}

export function Sources({told}) {
  const {snapshot, watermarks, positions} = told, some = n => n ? count(n) : ''
  const at = one => watermarks[one.name] && html`${instant(one.watermark) || watermarks[one.name]}${instant(one.watermark) && html`<small class="soft">${watermarks[one.name]}</small>`}`
  const idle = one => one.is_idle ? 'idle' : one.idle_lanes.join(', ')
  const columns = [
    ['source', one => one.name], ['rows', one => count(one.rows_in), true], ['rows/s', one => big(one.rows_per_s), true], ['watermark', at, true],
    ['held by', one => one.held_by || ''], ['holds up', one => snapshot.idle.includes(one.name) ? 'others wait for it' : one.holds && snapshot.sources.length > 1 ? 'its watermark is the least' : ''],
    ['idle', idle], ['pauses', one => some(one.pauses), true], ['waiting', one => some(one.waiting_rows), true], ['behind', one => some(one.lag_rows), true],
    ['late', one => some(one.late), true], ['rejected', one => some(one.rejected), true], ['goes on at', one => positions[one.name] ? html`<code>${positions[one.name]}</code>` : ''],
  ]
  return html`<${Card} wide id="sources" title="Sources"><${Table} label="Sources" columns=${columns} rows=${snapshot.sources} keys=${one => one.name} mark=${one => snapshot.idle.includes(one.name) || one.is_idle ? 'waits' : ''}/><//>`
}

export function Sinks({snapshot}) {
  const columns = [
    ['sink', one => one.name], ['rows', one => count(one.rows), true], ['p50', one => seconds(one.latency?.p50), true],
    ['p99', one => seconds(one.latency?.p99), true], ['most', one => seconds(one.latency?.max), true],
  ]
  return html`<${Card} id="sinks" title="Sinks"><${Table} label="Sinks" columns=${columns} rows=${snapshot.sinks} keys=${one => one.name}/><//>`
}

export function BadRows({snapshot}) {
  const columns = [['when', one => clock(one.at_s), 'tight'], ['by', one => one.operator, 'tight'], ['what', one => one.what, 'tight'], ['why', one => one.reason], ['row', one => html`<code>${one.row}</code>`]]
  const rows = [...snapshot.bad_rows].reverse()
  return html`<${Card} wide id="bad-rows" title="Late and rejected rows" more=${`the last ${count(rows.length)}`}><${Table} label="Late and rejected rows" columns=${columns} rows=${rows}/><//>`
}

export function Changes({snapshot}) {
  const columns = [
    ['after', one => duration(one.seconds), true], ['what', one => [one.what, one.operator].filter(Boolean).join(' of ')], ['change', one => `${one.before} → ${one.after}`],
    ['why', one => one.reason], ['refused', one => one.refused],
  ]
  return html`<${Card} id="changes" title="Changes of threads, replicas, slots and tables" more=${count(snapshot.changes.length)}><${Table} most=${12} label="Changes" columns=${columns} rows=${[...snapshot.changes].reverse()}/><//>`
}

export function Policy({policy}) {
  const rows = policy.assigned.map((names, n) => [n, names])
  return html`<${Card} id="policy" title="Policy: last round" more=${[policy.policy, policy.rounds !== null && plural(policy.rounds, 'round'), policy.cost_s !== null && `${seconds(policy.cost_s)} of CPU`].filter(Boolean).join(' · ')}>
    ${policy.reason && html`<p>${policy.reason}</p>`}
    ${rows.length > 0 ? html`<${Table} label="Who was assigned what" columns=${[['thread', ([n]) => n], ['operators, the most urgent first', ([, names]) => names.join(' › ') || '–']]} rows=${rows}/>` : html`<p class="soft">It assigns no lists: each worker asks it who is next.</p>`}<//>`
}

export function Keys({keys}) {
  const operators = Object.entries(keys.slot_rows), facts = [
    keys.stay !== null && ['stayed in their slot', `${share(keys.stay)} of tuples${keys.stay_hashed !== null ? `; by hash ${share(keys.stay_hashed)}` : ''}`],
    ['table', keys.epoch ? `number ${count(keys.epoch)}, names ${plural(keys.keys_pinned, 'key')}` : 'none: keys go by their hash'],
    keys.table_stay !== null && ['a new table', `would keep ${share(keys.table_stay)}${keys.known_stay !== null ? ` where this one keeps ${share(keys.known_stay)}` : ''}: gains ${big(keys.table_gain)} tuples, moving costs ${big(keys.table_cost)}`],
    keys.decision && ['decided', keys.decision],
    (keys.keys_moved || keys.bytes_moved) && ['moved', `${plural(keys.keys_moved, 'key')}, ${bytes(keys.bytes_moved)} of state`],
    keys.local_bytes !== null && ['exchanged', `${bytes(keys.local_bytes)} inside executors, ${bytes(keys.remote_bytes)} between them`],
  ].filter(Boolean)
  return html`<${Card} id="keys" title="Keys: share of rows by slot" more="last batch">
    ${operators.map(([name, rows]) => html`<${Slots} key=${name} name=${name} rows=${rows} imbalance=${keys.imbalance[name]}/>`)}
    <dl class="facts">${facts.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl><//>`
}

function Slots({name, rows, imbalance}) {
  const all = rows.reduce((a, b) => a + b, 0), most = Math.max(...rows, 1), wide = Math.max(14, Math.min(64, 620 / rows.length)), height = 46
  return html`<figure class="slots" data-slots=${name}><figcaption><b>${name}</b> <span class="soft">fullest slot ${imbalance === undefined ? '' : `${imbalance.toFixed(2)} × the mean`}</span></figcaption>
    <svg width=${rows.length * wide} height=${height + 16} role="img" aria-label=${`${name}: ${rows.slice(0, 64).map((n, slot) => `slot ${slot} ${share(all ? n / all : 0)}`).join(', ')}`}>
    ${rows.map((n, slot) => { const h = n / most * (height - 14); return html`<g transform="translate(${slot * wide} 0)"><title>slot ${slot}: ${count(n)} rows</title><rect class=${all && n === most && n * rows.length / all > 1.2 ? 'slot full' : 'slot'} x="1" y=${height - h} width=${wide - 3} height=${Math.max(1, h)}/>
      ${wide >= 34 && html`<text x=${wide / 2} y=${height - h - 3} text-anchor="middle">${share(all ? n / all : 0)}</text>`}${(wide >= 20 || slot % 8 === 0) && html`<text class="soft" x=${wide / 2} y=${height + 13} text-anchor="middle">${slot}</text>`}</g>` })}</svg></figure>`
}

export function BatchTable({batches}) {
  const columns = [['batch', one => one.batch], ['rows', one => count(one.rows), true], ['time', one => seconds(one.seconds), true], ['parts', partsOf], ['slots', one => count(one.slots), true], ['threads', one => count(one.threads), true]]
  return html`<details><summary>The same as a table</summary><${Table} label="Batches" columns=${columns} rows=${[...batches].reverse()} keys=${one => one.batch}/></details>`
}

export function Links({links}) {
  const safe = Object.entries(links).filter(([, address]) => /^https?:\/\//.test(address))
  return safe.length > 0 && html`<p class="links">Elsewhere: ${safe.map(([name, address]) => html`<a href=${address} target="_blank" rel="noopener noreferrer">${name}</a> `)}</p>`
}

const FIELDS = {rows_per_s: 'rows/s', busy: 'busy now', busy_ns: 'worked', cost_ns: 'cost a row', back_pressured: 'waits for room', queue_rows: 'queue', runs: 'runs in', reason: 'since', is_idle: 'idle'}

// All that is known of one node.
export function Details({told, selected, select, setOpen, open}) {
  const {snapshot} = told, at = selected.indexOf(':'), kind = selected.slice(0, at), name = selected.slice(at + 1)
  const of = {op: snapshot.operators, source: snapshot.sources, sink: snapshot.sinks}[kind]?.find(one => one.name === name)
  const members = kind === 'group' ? snapshot.operators.filter(one => one.name.startsWith(name + '/')) : []
  if (!of && !members.length) return null
  const facts = Object.entries(of || {}).filter(([field, value]) => field !== 'name' && value !== null && value !== '' && !(Array.isArray(value) && !value.length)).map(([field, value]) => [FIELDS[field] || field.replaceAll('_', ' '), shown(field, value)])
  const state = kind === 'op' && snapshot.state.find(one => one.operator === name)
  if (state) facts.push(['state', [state.rows !== null && plural(state.rows, 'key'), state.bytes !== null && bytes(state.bytes)].filter(Boolean).join(', ')])
  const near = (one, mine, other) => snapshot.edges.filter(edge => edge[mine] === (kind === 'sink' && mine === 'reader' ? `sink:${name}` : name)).map(edge => edge[other].startsWith('sink:') ? edge[other] : snapshot.sources.some(s => s.name === edge[other]) ? `source:${edge[other]}` : `op:${edge[other]}`)
  const link = id => html`<button type="button" class="link" onClick=${() => select(id)}>${id.slice(id.indexOf(':') + 1)}</button> `
  const group = kind === 'op' && name.includes('/') ? name.slice(0, name.lastIndexOf('/')) : ''
  return html`<aside class="card details" id="details" aria-label="Details of ${name}">
    <div class="head"><h2>${name}</h2><span class="gap"></span><button type="button" aria-label="Close details" onClick=${() => select('')}>✕</button></div>
    ${kind === 'group' ? html`<p>A composite of ${plural(members.length, 'operator')}. <button type="button" onClick=${() => { const more = new Set([...open, name]); setOpen(more); select(seenAs(members[0].name, more)) }}>Open it</button></p>
      <${Table} label="Its operators" columns=${[['operator', one => one.name.slice(name.length + 1)], ['in', one => count(one.rows_in), true], ['busy', one => share(one.busy), true]]} rows=${members} keys=${one => one.name}/>`
    : html`<dl class="facts">${facts.map(([field, value]) => html`<dt>${field}</dt><dd>${value}</dd>`)}
      ${kind !== 'source' && html`<dt>reads</dt><dd>${near(of, 'reader', 'giver').map(link)}</dd>`}${kind !== 'sink' && html`<dt>read by</dt><dd>${near(of, 'giver', 'reader').map(link)}</dd>`}</dl>`}
    ${group && open.has(group) && html`<button type="button" onClick=${() => { setOpen(new Set([...open].filter(one => one !== group && !one.startsWith(group + '/')))); select(`group:${group}`) }}>Close composite ${group}</button>`}
  </aside>`
}

function shown(field, value) {
  if (field === 'busy' || field === 'back_pressured') return share(value)
  if (field.endsWith('_ns')) return time(value)
  if (field === 'latency') return `p50 ${seconds(value.p50)}, p99 ${seconds(value.p99)}, most ${seconds(value.max)}`
  if (field === 'watermark') return `${count(value)} ${instant(value)}`
  if (field === 'selectivity') return value.toFixed(3)
  if (typeof value === 'number') return count(value)
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
