// Which nodes and edges the graph has, by which composites are open, and where they stand.

export const WIDTH = 190, HEIGHT = 72
const APART = 24, BETWEEN = 112, MARGIN = 16
// Beyond so many nodes dagre takes seconds, and columns by the longest way do.
const MANY = 160
// So many operators and more are shown by composite at first.
export const GROUPED_FROM = 40

export const groupsOf = name => {
  const parts = name.split('/'), found = []
  for (let n = 1; n < parts.length; n++) found.push(parts.slice(0, n).join('/'))
  return found
}

// Where an operator is seen: itself, or the outermost composite around it that is closed.
export function seenAs(name, open) {
  for (const group of groupsOf(name)) if (!open.has(group)) return `group:${group}`
  return `op:${name}`
}

export const allGroups = snapshot => new Set(snapshot.operators.flatMap(one => groupsOf(one.name)))

// Nodes by id, and edges between them; ids are op:, source:, sink: or group: and a name.
export function graphOf(snapshot, open) {
  const nodes = new Map(), at = new Map(), edges = new Map(), inputs = new Map()
  for (const one of snapshot.sources) add(`source:${one.name}`, 'source', one.name, one)
  for (const one of snapshot.operators) {
    const id = seenAs(one.name, open)
    if (id.startsWith('group:')) add(id, 'group', id.slice(6), null).members.push(one)
    else add(id, 'op', one.name, one)
    at.set(one.name, id)
  }
  for (const one of snapshot.sinks) add(`sink:${one.name}`, 'sink', one.name, one)
  const operators = new Map(snapshot.operators.map(one => [one.name, one]))
  const sources = new Map(snapshot.sources.map(one => [one.name, one]))
  for (const one of snapshot.edges) inputs.set(one.reader, (inputs.get(one.reader) || 0) + 1)
  for (const one of snapshot.edges) {
    const from = at.get(one.giver) || `source:${one.giver}`
    const to = one.reader.startsWith('sink:') ? one.reader : at.get(one.reader)
    if (!nodes.has(from) || !nodes.has(to) || from === to) continue
    const key = `${from}\n${to}`
    const edge = edges.get(key) || {key, from, to, rate: null, rows: null, ports: new Set(), feedback: one.feedback}
    const found = flows(one, operators, sources, inputs)
    if (found.rate !== undefined) edge.rate = (edge.rate || 0) + found.rate
    if (found.rows !== undefined) edge.rows = (edge.rows || 0) + found.rows
    if (one.port !== 'out') edge.ports.add(one.port)
    edges.set(key, edge)
  }
  return {nodes, edges: [...edges.values()]}

  function add(id, kind, name, data) {
    if (!nodes.has(id)) nodes.set(id, {id, kind, name, data, members: []})
    return nodes.get(id)
  }
}

// What passes over an edge: rows a second, or of late and rejected rows how many there were.
function flows(edge, operators, sources, inputs) {
  const giver = operators.get(edge.giver) || sources.get(edge.giver), reader = operators.get(edge.reader)
  if (edge.port === 'late' || edge.port === 'rejected') return {rows: giver?.[edge.port] ?? 0}
  if (reader && inputs.get(edge.reader) === 1 && reader.rows_per_s !== null) return {rate: reader.rows_per_s}
  if (!giver || giver.rows_per_s === null || edge.port !== 'out') return {}
  return {rate: giver.rows_per_s * (giver.rows_in ? giver.rows_out / giver.rows_in : giver.selectivity ?? 1)}
}

let kept = {key: '', laid: null}

// Places of nodes and the ways of edges; made anew only when the graph is another one.
export function laidOut({nodes, edges}) {
  const key = [...nodes.keys()].join('\n') + '\n\n' + edges.map(one => one.key).join('\n\n')
  if (kept.key !== key) kept = {key, laid: nodes.size > MANY ? inColumns(nodes, edges) : byDagre(nodes, edges)}
  return kept.laid
}

function byDagre(nodes, edges) {
  const graph = new dagre.graphlib.Graph()
  graph.setGraph({rankdir: 'LR', nodesep: APART, ranksep: BETWEEN, marginx: MARGIN, marginy: MARGIN})
  graph.setDefaultEdgeLabel(() => ({}))
  for (const id of nodes.keys()) graph.setNode(id, {width: WIDTH, height: HEIGHT})
  for (const one of edges) if (!one.feedback) graph.setEdge(one.from, one.to)
  dagre.layout(graph)
  const places = new Map([...nodes.keys()].map(id => [id, {x: graph.node(id).x - WIDTH / 2, y: graph.node(id).y - HEIGHT / 2}]))
  const ways = new Map(edges.map(one => [one.key, one.feedback ? null : graph.edge(one.from, one.to).points]))
  return finished(places, edges, ways)
}

// Columns by the longest way from a source; in a column the order of those that they read.
function inColumns(nodes, edges) {
  const column = new Map([...nodes.keys()].map(id => [id, 0])), before = new Map()
  const forward = edges.filter(one => !one.feedback)
  for (const one of forward) before.set(one.to, [...(before.get(one.to) || []), one.from])
  for (let round = 0, moved = true; moved && round < nodes.size; round++) {
    moved = false
    for (const one of forward) {
      const least = column.get(one.from) + 1
      if (column.get(one.to) < least && least < nodes.size) { column.set(one.to, least); moved = true }
    }
  }
  const columns = [], row = new Map(), places = new Map()
  for (const [id, n] of column) (columns[n] ||= []).push(id)
  columns.forEach((ids, n) => {
    const wanted = id => { const found = (before.get(id) || []).map(one => row.get(one) ?? 0); return found.length ? found.reduce((a, b) => a + b) / found.length : 0 }
    if (n) { const by = new Map(ids.map(id => [id, wanted(id)])); ids.sort((a, b) => by.get(a) - by.get(b)) }
    ids.forEach((id, place) => { row.set(id, place); places.set(id, {x: MARGIN + n * (WIDTH + BETWEEN), y: MARGIN + place * (HEIGHT + APART)}) })
  })
  return finished(places, edges, new Map())
}

function finished(places, edges, ways) {
  let width = 0, height = 0
  for (const {x, y} of places.values()) { width = Math.max(width, x + WIDTH + MARGIN); height = Math.max(height, y + HEIGHT + MARGIN) }
  const gives = new Map(), takes = new Map()
  for (const one of edges) { gives.set(one.from, (gives.get(one.from) || 0) + 1); takes.set(one.to, (takes.get(one.to) || 0) + 1) }
  const drawn = edges.map(one => {
    const a = places.get(one.from), b = places.get(one.to)
    const from = {x: a.x + WIDTH, y: a.y + HEIGHT / 2}, to = {x: b.x, y: b.y + HEIGHT / 2}
    if (one.feedback) {
      const low = Math.max(a.y, b.y) + HEIGHT + 20, up = {x: b.x + WIDTH / 2, y: b.y + HEIGHT}, down = {x: a.x + WIDTH / 2, y: a.y + HEIGHT}
      height = Math.max(height, low + 24)
      return {key: one.key, path: `M${down.x} ${down.y}C${down.x} ${low + 14} ${up.x} ${low + 14} ${up.x} ${up.y}`, label: {x: (up.x + down.x) / 2, y: low, anchor: 'middle'}}
    }
    const points = ways.get(one.key), bends = points && points.length > 3
    const inner = bends ? points.slice(1, -1) : []
    const all = [from, ...inner, to]
    const middle = bends ? points[Math.floor(points.length / 2)] : {x: (from.x + to.x) / 2, y: (from.y + to.y) / 2}
    return {key: one.key, path: smooth(all), label: labelAt(from, to, middle, gives.get(one.from), takes.get(one.to))}
  })
  return {places, edges: new Map(drawn.map(one => [one.key, one])), width, height}
}

// Where a rate stands: of several ways from one node at their ends, of several to one at their beginnings, beside the bend.
function labelAt(from, to, middle, gives, takes) {
  const falls = to.y - from.y
  if (gives > 1 && takes === 1) return {x: to.x - 12, y: to.y + (falls > 8 ? 15 : -7), anchor: 'end'}
  if (takes > 1 && gives === 1) return {x: from.x + 6, y: from.y + (falls < -8 ? 15 : -7), anchor: 'start'}
  return {x: middle.x, y: middle.y - 7, anchor: 'middle'}
}

// A way through points that leaves and arrives level.
function smooth(points) {
  let path = `M${round(points[0].x)} ${round(points[0].y)}`
  for (let n = 1; n < points.length; n++) {
    const a = points[n - 1], b = points[n], half = (b.x - a.x) / 2
    path += `C${round(a.x + half)} ${round(a.y)} ${round(b.x - half)} ${round(b.y)} ${round(b.x)} ${round(b.y)}`
  }
  return path
}

const round = n => Math.round(10 * n) / 10
