// The graph: nodes with rates, busy shares and who holds up the others; edges with rates. Only what is in view is drawn.

import {html, useEffect, useLayoutEffect, useRef, useState} from '/vendor/htm-preact.module.js'
import {big, bytes, count, cut, plural, seconds, share, time} from '/words.js'
import {HEIGHT, WIDTH, allGroups, graphOf, laidOut} from '/layout.js'

const LEAST = 0.72, AROUND = 300
const PRESSED = 0.1  // as thalweg.snapshot.bottleneck has it

export function Graph({told, open, setOpen, selected, select}) {
  const {snapshot, culprit} = told
  const box = useRef(null), [zoom, setZoom] = useState(0), [view, setView] = useState({x: 0, y: 0, width: 4000, height: 4000})
  const [focused, setFocused] = useState('')
  const graph = graphOf(snapshot, open), laid = laidOut(graph)
  const ids = [...graph.nodes.keys()]
  const look = () => { const it = box.current; if (it) setView({x: it.scrollLeft, y: it.scrollTop, width: it.clientWidth, height: it.clientHeight}) }
  useLayoutEffect(look, [zoom, laid])
  // The first node, or who was chosen, is in view when the graph is another one.
  useEffect(() => show(selected && laid.places.has(selected) ? selected : ids[0]), [laid, selected])
  useEffect(() => { addEventListener('resize', look); return () => removeEventListener('resize', look) }, [])
  const fit = box.current ? (box.current.clientWidth - 2) / laid.width : 1
  const scale = zoom || Math.min(1, Math.max(LEAST, fit))
  const groups = allGroups(snapshot)
  const inView = ({x, y}, w, h) => (x + w) * scale > view.x - AROUND && x * scale < view.x + view.width + AROUND && (y + h) * scale > view.y - AROUND && y * scale < view.y + view.height + AROUND
  const stop = graph.nodes.has(focused) ? focused : graph.nodes.has(selected) ? selected : ids[0]
  const state = new Map(snapshot.state.map(one => [one.operator, one]))
  const nodes = [...graph.nodes.values()].filter(one => one.id === stop || inView(laid.places.get(one.id), WIDTH, HEIGHT))
  const edges = graph.edges.filter(one => { const a = laid.places.get(one.from), b = laid.places.get(one.to); return inView({x: Math.min(a.x, b.x), y: Math.min(a.y, b.y)}, Math.abs(a.x - b.x) + WIDTH, Math.abs(a.y - b.y) + HEIGHT) })

  function show(id) {
    const it = box.current, place = laid.places.get(id)
    if (!it || !place) return
    const within = (from, size, low, length) => from >= low + 8 && from + size <= low + length - 8 ? low : from - (length - size) / 2
    it.scrollTo(within(place.x * scale, WIDTH * scale, it.scrollLeft, it.clientWidth), within(place.y * scale, HEIGHT * scale, it.scrollTop, it.clientHeight))
  }
  function go(id) {
    if (!id) return
    setFocused(id)
    show(id)
    const it = box.current
    requestAnimationFrame(() => { look(); requestAnimationFrame(() => it.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus({preventScroll: true})) })
  }
  function pressed(event, node) {
    const column = id => [...laid.places].filter(([, p]) => Math.abs(p.x - laid.places.get(id).x) < 1).sort((a, b) => a[1].y - b[1].y).map(([one]) => one)
    const moves = {
      ArrowRight: () => graph.edges.find(one => one.from === node.id && !one.feedback)?.to,
      ArrowLeft: () => graph.edges.find(one => one.to === node.id && !one.feedback)?.from,
      ArrowDown: () => { const all = column(node.id); return all[all.indexOf(node.id) + 1] },
      ArrowUp: () => { const all = column(node.id); return all[all.indexOf(node.id) - 1] },
      Home: () => ids[0], End: () => ids.at(-1),
    }
    if (event.key === 'Enter' || event.key === ' ') select(selected === node.id ? '' : node.id)
    else if (event.key === 'Escape') select('')
    else if (moves[event.key]) go(moves[event.key]())
    else return
    event.preventDefault()
  }
  const isSmall = scale < 0.35
  return html`<section class="card graph" aria-labelledby="graph-title">
    <div class="head"><h2 id="graph-title" tabindex="-1">Flow</h2>
      <span class="soft" data-field="graph-size">${plural(snapshot.operators.length, 'operator')}${graph.nodes.size < snapshot.operators.length ? `, ${plural(graph.nodes.size, 'node')} shown` : ''}</span>
      <span class="gap"></span>
      ${groups.size > 0 && html`<button type="button" onClick=${() => setOpen(open.size ? new Set() : groups)}>${open.size ? 'Close composites' : 'Open composites'}</button>`}
      <span class="buttons" role="group" aria-label="Zoom">
        <button type="button" aria-label="Smaller" onClick=${() => setZoom(scale / 1.25)}>−</button>
        <button type="button" onClick=${() => setZoom(Math.min(1, fit, (box.current.clientHeight - 2) / laid.height))}>Fit</button>
        <button type="button" aria-label="Larger" onClick=${() => setZoom(Math.min(2, scale * 1.25))}>+</button>
      </span></div>
    <div class="canvas" ref=${box} onScroll=${look}>
      <svg class=${isSmall ? 'tiny' : ''} width=${laid.width * scale} height=${laid.height * scale} viewBox="0 0 ${laid.width} ${laid.height}" role="group" aria-label="Graph of operators; arrow keys move, Enter shows details">
        <defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>
        ${edges.map(one => html`<${Edge} key=${one.key} edge=${one} drawn=${laid.edges.get(one.key)} small=${isSmall}/>`)}
        ${nodes.map(one => html`<${Node} key=${one.id} node=${one} place=${laid.places.get(one.id)} small=${isSmall} state=${state.get(one.name)}
          idle=${snapshot.idle.includes(one.name)} culprit=${culprit} selected=${one.id === selected} stop=${one.id === stop}
          onClick=${() => select(selected === one.id ? '' : one.id)} onKeyDown=${event => pressed(event, one)} onFocus=${() => setFocused(one.id)}/>`)}
      </svg>
    </div></section>`
}

function Edge({edge, drawn, small}) {
  const label = edge.rows !== null && edge.rate === null ? `${big(edge.rows)} ${[...edge.ports].join(', ')}` : edge.rate === null ? [...edge.ports].join(', ') : `${big(edge.rate)}/s${edge.ports.size ? ` ${cut([...edge.ports].join(', '), 10)}` : ''}`
  const width = edge.rate ? Math.min(4.5, 1 + Math.log10(1 + edge.rate) / 1.6) : 1
  const isSide = edge.ports.has('late') || edge.ports.has('rejected')
  return html`<g class=${`edge${isSide ? ' side' : ''}${edge.feedback ? ' back' : ''}`} data-edge=${edge.key.replace('\n', ' > ')}>
    <path d=${drawn.path} stroke-width=${width} marker-end="url(#end)"/>
    ${!small && label && html`<text x=${drawn.label.x} y=${drawn.label.y} text-anchor=${drawn.label.anchor}>${label}</text>`}</g>`
}

function Node({node, place, small, state, idle, culprit, selected, stop, ...events}) {
  const facts = factsOf(node, state, idle, culprit)
  const names = ['node', node.kind, facts.isCulprit && 'culprit', facts.isPressed && 'pressed', node.data?.fused_with && node.data.fused_with === culprit && 'chained', selected && 'selected'].filter(Boolean).join(' ')
  const bar = facts.busy === null ? 0 : Math.min(1, facts.busy) * (WIDTH - 24)
  return html`<g class=${names} transform="translate(${place.x} ${place.y})" data-id=${node.id} tabindex=${stop ? 0 : -1} role="button" aria-pressed=${selected} aria-label=${[facts.kind, node.name, facts.flag, ...facts.lines].filter(Boolean).join(', ')} ...${events}>
    <title>${node.name}</title>
    ${node.kind === 'group' && html`<rect class="behind" x="5" y="-5" width=${WIDTH} height=${HEIGHT} rx="8"/>`}
    <rect class="box" width=${WIDTH} height=${HEIGHT} rx=${node.kind === 'source' || node.kind === 'sink' ? HEIGHT / 2.6 : 8}/>
    ${!small && html`<text class="name" x="12" y="20">${facts.isCulprit ? '▶ ' : ''}${cut(node.name, facts.isCulprit || facts.busy !== null ? 17 : 22)}</text>
      ${facts.busy !== null && html`<text class="busy" x=${WIDTH - 12} y="20" text-anchor="end">${share(facts.busy)}</text>`}
      <text class="line" x="12" y="38">${cut(facts.lines[0] || '', 28)}</text>
      <text class=${facts.isPressed ? 'line warn' : 'line soft'} x="12" y="54">${cut(facts.flag && !facts.isCulprit ? facts.flag : facts.lines[1] || '', 29)}</text>`}
    ${facts.busy !== null && html`<rect class="track" x="12" y=${HEIGHT - 10} width=${WIDTH - 24} height="4" rx="2"/><rect class="bar" x="12" y=${HEIGHT - 10} width=${bar} height="4" rx="2"/>`}
  </g>`
}

// What a node says of itself.
export function factsOf(node, state, idle, culprit) {
  const one = node.data
  if (node.kind === 'source') {
    const watermark = one.is_idle ? 'idle: nobody waits for it' : one.idle_lanes.length ? `idle: ${one.idle_lanes.join(', ')}` : idle ? 'others wait for it' : one.holds && one.held_by ? `held by ${one.held_by}` : one.lag_rows ? `${big(one.lag_rows)} behind` : one.late ? `${big(one.late)} late` : ''
    return {kind: 'source', busy: null, isPressed: idle || one.is_idle, isCulprit: false, flag: '', lines: [rate(one.rows_per_s, one.rows_in), watermark]}
  }
  if (node.kind === 'sink') return {kind: 'sink', busy: null, isPressed: false, isCulprit: false, flag: '', lines: [plural(one.rows, 'row'), one.latency ? `p99 ${seconds(one.latency.p99)}` : '']}
  if (node.kind === 'group') {
    const sum = what => node.members.some(m => m[what] !== null) ? node.members.reduce((all, m) => all + (m[what] || 0), 0) : null
    const most = Math.max(...node.members.map(m => m.rows_per_s ?? 0))
    const isPressed = node.members.some(m => (m.back_pressured || 0) >= PRESSED), isCulprit = node.members.some(m => m.name === culprit)
    return {kind: 'composite', busy: sum('busy'), isPressed, isCulprit, flag: isCulprit ? `${culprit} holds up the others` : '', lines: [`${count(node.members.length)} operators`, `up to ${big(most)} rows/s`]}
  }
  const isPressed = (one.back_pressured || 0) >= PRESSED, isCulprit = one.name === culprit
  const kept = state ? state.bytes !== null ? bytes(state.bytes) : state.rows !== null ? plural(state.rows, 'key') : '' : ''
  const runs = one.fused_with ? `with ${one.fused_with}` : one.runs === 'Python' ? 'Python' : one.runs === 'machine code' ? 'machine' : one.runs || ''
  const more = [runs, one.queue_rows ? `queue ${big(one.queue_rows)}` : '', kept, one.rejected ? `${big(one.rejected)} rejected` : '', one.late ? `${big(one.late)} late` : ''].filter(Boolean).join(' · ')
  const cost = one.cost_ns === null ? '' : ` · ${time(one.cost_ns)}/row`
  return {kind: one.kind, busy: one.busy, isPressed, isCulprit, flag: isCulprit ? 'holds up the others' : isPressed ? `waits for room ${share(one.back_pressured)}` : '', lines: [rate(one.rows_per_s, one.rows_in) + cost, more]}
}

const rate = (per_s, rows) => per_s === null ? plural(rows, 'row') : `${big(per_s)} rows/s`
