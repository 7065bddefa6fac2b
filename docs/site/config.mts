// The site has the pages of the repository as they are: make site copies them to pages/, with
// the same paths, so that the links between them stay right.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, normalize, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withMermaid } from 'vitepress-plugin-mermaid'

const repository = 'https://github.com/platform-operator/platform-operator'
const pages = resolve(dirname(fileURLToPath(import.meta.url)), '../pages')

const text = (path: string) => readFileSync(join(pages, path), 'utf8')
// What a kind's title has in parentheses is too long for the sidebar.
const title = (path: string) => /^# (.+)$/m.exec(text(path))![1].replaceAll('`', '').replace(/ \(.*\)$/, '')

/** The address of a page of the site, or of a file of the repository. */
function address(from: string, link: string): string {
  const [path, anchor] = link.split('#')
  const to = path ? normalize(join(dirname(from), path)) : from
  const hash = anchor === undefined ? '' : '#' + anchor
  if (!to.endsWith('.md') || !existsSync(join(pages, to))) {
    return `${repository}/blob/main/${to}${hash}`
  }
  return '/' + to.replace(/(^|\/)README\.md$/, '$1index.md') + hash
}

/** The links of a section of the index, in their order. */
function links(section: string): { text: string; link: string }[] {
  return [...section.matchAll(/\[([^\]]+)\]\(([^)#]+)\)/g)].map(([, , to]) => {
    const path = normalize(join('docs', to))
    return { text: title(path), link: address('docs/README.md', to) }
  })
}

function folder(path: string) {
  return readdirSync(join(pages, path)).filter((f) => f.endsWith('.md') && f !== 'README.md').sort()
    .map((f) => ({ text: title(`${path}/${f}`), link: `/${path}/${f}` }))
}

// The index has a heading for each group of readers.
const groups = text('docs/README.md').split(/^## /m).slice(1).map((section) => {
  const name = section.split('\n', 1)[0]
  const items: { text: string; link?: string; items?: object[]; collapsed?: boolean }[] = links(section)
  if (name === 'Operate') items.push({ text: 'Runbooks', collapsed: true, items: folder('docs/runbooks') })
  if (name === 'Contribute') items.push({ text: 'All decisions', collapsed: true, items: folder('docs/decisions') })
  return { text: name, collapsed: name !== 'Use', items }
})

export default withMermaid({
  title: 'platform-operator',
  description: 'Self-managing workload APIs for platform teams',
  srcDir: 'pages',
  base: process.env.SITE_BASE ?? '/',
  rewrites: { 'README.md': 'index.md', ':path(.*)/README.md': ':path/index.md' },
  lastUpdated: false,
  markdown: {
    languageAlias: { promql: 'bash' },
    config(md) {
      md.core.ruler.push('links', ({ tokens, env }) => {
        for (const t of tokens.flatMap((t) => t.children ?? [])) {
          const href = t.type === 'link_open' && t.attrGet('href')
          if (href && !/^([a-z]+:|#)/.test(href)) t.attrSet('href', address(env.relativePath ?? env.path, href))
        }
      })
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [{ text: 'Documentation', link: '/docs/' }, { text: 'Changes', link: '/CHANGELOG' }],
    sidebar: [{ text: 'Start', items: [{ text: 'platform-operator', link: '/' }, ...['Five lines', 'Installation', 'Local demo'].map((text) => ({ text, link: '/#' + text.toLowerCase().replaceAll(' ', '-') }))] }, ...groups],
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/:path`, text: 'Edit this page' },
  },
})
