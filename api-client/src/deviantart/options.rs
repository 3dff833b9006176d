use serde_json::{Map, Value};
use uuid::Uuid;

use crate::ConfigError;
use crate::channel::Reader;

const ACCEPTED: [&str; 19] = [
    "is_mature",
    "mature_level",
    "mature_classification",
    "agree_submission",
    "agree_tos",
    "feature",
    "allow_comments",
    "display_resolution",
    "sharing",
    "license_options",
    "galleryids",
    "allow_free_download",
    "add_watermark",
    "groups",
    "is_ai_generated",
    "noai",
    "original_url",
    "is_dirty",
    "stack",
];
const LEVELS: [&str; 2] = ["strict", "moderate"];
const CLASSES: [&str; 5] = ["nudity", "sexual", "gore", "language", "ideology"];
const SHARING: [&str; 3] = ["allow", "hide_share_buttons", "hide_and_members_only"];

/// Why and how strongly a work is for adults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mature {
    /// `strict` or `moderate`.
    pub level: &'static str,
    /// Any of `nudity`, `sexual`, `gore`, `language`, `ideology`.
    pub classification: Vec<&'static str>,
}

/// What others may do with a work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct License {
    /// A Creative Commons licence at all.
    pub creative_commons: bool,
    /// Commercial use allowed.
    pub commercial: Option<bool>,
    /// Changes allowed: `yes`, `no` or `share` (alike).
    pub modify: Option<&'static str>,
}

/// The options of a post, typed and checked before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishOptions {
    /// For adults, and how; from `is_mature`, `mature_level` and `mature_classification`.
    pub mature: Option<Mature>,
    /// Agreement with the submission policy; true unless said otherwise.
    pub agree_submission: bool,
    /// Agreement with the terms of service; true unless said otherwise.
    pub agree_tos: bool,
    /// Shown in the featured gallery.
    pub feature: Option<bool>,
    /// Comments allowed.
    pub allow_comments: Option<bool>,
    /// Largest size shown, 0 (original) to 8.
    pub display_resolution: Option<u64>,
    /// `allow`, `hide_share_buttons` or `hide_and_members_only`.
    pub sharing: Option<&'static str>,
    /// Licence.
    pub license: Option<License>,
    /// Galleries it is put into.
    pub galleryids: Vec<Uuid>,
    /// The original may be downloaded.
    pub allow_free_download: Option<bool>,
    /// A watermark is added.
    pub add_watermark: Option<bool>,
    /// Groups it is offered to.
    pub groups: Vec<String>,
    /// Made with AI.
    pub is_ai_generated: Option<bool>,
    /// Not to be used to train AI.
    pub noai: Option<bool>,
    /// Where it first appeared.
    pub original_url: Option<String>,
    /// Still being worked on.
    pub is_dirty: Option<bool>,
    /// The Sta.sh stack it is filed under.
    pub stack: Option<String>,
}

impl PublishOptions {
    /// Reads the options of a post.
    pub fn read(options: &Map<String, Value>) -> Result<Self, ConfigError> {
        let reader = Reader::new("option", options, &ACCEPTED)?;
        Ok(Self {
            mature: mature(&reader)?,
            agree_submission: reader.bool("agree_submission")?.unwrap_or(true),
            agree_tos: reader.bool("agree_tos")?.unwrap_or(true),
            feature: reader.bool("feature")?,
            allow_comments: reader.bool("allow_comments")?,
            display_resolution: reader.number("display_resolution", 0, 8)?,
            sharing: reader.word("sharing", &SHARING)?,
            license: license(&reader)?,
            galleryids: galleries(&reader)?,
            allow_free_download: reader.bool("allow_free_download")?,
            add_watermark: reader.bool("add_watermark")?,
            groups: reader.list("groups")?,
            is_ai_generated: reader.bool("is_ai_generated")?,
            noai: reader.bool("noai")?,
            original_url: reader.text("original_url")?,
            is_dirty: reader.bool("is_dirty")?,
            stack: reader.text("stack")?,
        })
    }

    /// The fields of the upload.
    pub(super) fn submit_fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = Fields::default();
        fields.text("original_url", self.original_url.as_ref());
        fields.bool("is_dirty", self.is_dirty);
        fields.text("stack", self.stack.as_ref());
        fields.bool("noai", self.noai);
        fields.bool("is_ai_generated", self.is_ai_generated);
        fields.0
    }

    /// The fields of the publishing call.
    pub(super) fn publish_fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = Fields::default();
        fields.bool("is_mature", Some(self.mature.is_some()));
        if let Some(mature) = &self.mature {
            fields.text("mature_level", Some(mature.level));
            fields.each("mature_classification[]", &mature.classification);
        }
        fields.bool("agree_submission", Some(self.agree_submission));
        fields.bool("agree_tos", Some(self.agree_tos));
        fields.bool("feature", self.feature);
        fields.bool("allow_comments", self.allow_comments);
        fields.text("display_resolution", self.display_resolution);
        fields.text("sharing", self.sharing);
        if let Some(license) = &self.license {
            fields.bool(
                "license_options[creative_commons]",
                Some(license.creative_commons),
            );
            let commercial = license.commercial.map(|yes| if yes { "yes" } else { "no" });
            fields.text("license_options[commercial]", commercial);
            fields.text("license_options[modify]", license.modify);
        }
        fields.each("galleryids[]", &self.galleryids);
        fields.bool("allow_free_download", self.allow_free_download);
        fields.bool("add_watermark", self.add_watermark);
        fields.each("groups[]", &self.groups);
        fields.bool("is_ai_generated", self.is_ai_generated);
        fields.bool("noai", self.noai);
        fields.0
    }
}

#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn text(&mut self, name: &'static str, value: Option<impl ToString>) {
        self.0.extend(value.map(|value| (name, value.to_string())));
    }

    fn bool(&mut self, name: &'static str, value: Option<bool>) {
        self.text(
            name,
            value.map(|value| if value { "true" } else { "false" }),
        );
    }

    fn each(&mut self, name: &'static str, values: &[impl ToString]) {
        self.0
            .extend(values.iter().map(|value| (name, value.to_string())));
    }
}

fn mature(reader: &Reader<'_>) -> Result<Option<Mature>, ConfigError> {
    let level = reader.word("mature_level", &LEVELS)?;
    let classes = reader.list("mature_classification")?;
    let classification = classes
        .iter()
        .map(|class| {
            CLASSES
                .iter()
                .find(|known| *known == class)
                .copied()
                .ok_or_else(|| {
                    let problem = format!("may hold {}, not `{class}`", CLASSES.join(", "));
                    reader.bad("mature_classification", problem)
                })
        })
        .collect::<Result<Vec<_>, _>>()?;
    match (reader.bool("is_mature")?.unwrap_or(false), level) {
        (true, Some(level)) => Ok(Some(Mature {
            level,
            classification,
        })),
        (true, None) => Err(reader.bad(
            "mature_level",
            "must be strict or moderate when is_mature is true",
        )),
        (false, None) if classification.is_empty() => Ok(None),
        (false, _) => Err(reader.bad(
            "is_mature",
            "must be true when a mature level or class is given",
        )),
    }
}

fn license(reader: &Reader<'_>) -> Result<Option<License>, ConfigError> {
    let Some(license) = reader.object(
        "license_options",
        &["creative_commons", "commercial", "modify"],
    )?
    else {
        return Ok(None);
    };
    let commercial = license
        .word("commercial", &["yes", "no"])?
        .map(|word| word == "yes");
    let modify = license.word("modify", &["yes", "no", "share"])?;
    let creative_commons = license.bool("creative_commons")?.unwrap_or(false);
    if !creative_commons && (commercial.is_some() || modify.is_some()) {
        return Err(license.bad(
            "creative_commons",
            "must be true when commercial use or modification is spoken of",
        ));
    }
    Ok(Some(License {
        creative_commons,
        commercial,
        modify,
    }))
}

fn galleries(reader: &Reader<'_>) -> Result<Vec<Uuid>, ConfigError> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|_| reader.bad("galleryids", format!("must hold UUIDs, not `{text}`")))
    };
    reader.list("galleryids")?.iter().map(parse).collect()
}
